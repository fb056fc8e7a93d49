import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { type Batch, type BatchPart, parseBatch } from "./batch-mime.ts";
import { ServiceError } from "./errors.ts";
import { LIMITS } from "./limits.ts";

const BASE = "http://127.0.0.1:10002/devstoreaccount1";

/** The body of the specification's worked examples; `row` is the row key of the second operation. */
function exampleChangeset(row: string): string {
  return lines(
    "--batch_a1",
    "Content-Type: multipart/mixed; boundary=changeset_b1",
    "",
    "--changeset_b1",
    "Content-Type: application/http",
    "Content-Transfer-Encoding: binary",
    "",
    `POST ${BASE}/People HTTP/1.1`,
    "Content-ID: 1",
    "Content-Type: application/json",
    "Accept: application/json;odata=minimalmetadata",
    "Prefer: return-no-content",
    "DataServiceVersion: 3.0;",
    "",
    '{"PartitionKey":"p","RowKey":"1","v":1}',
    "--changeset_b1",
    "Content-Type: application/http",
    "Content-Transfer-Encoding: binary",
    "",
    `DELETE ${BASE}/People(PartitionKey='p',RowKey='${row}') HTTP/1.1`,
    "Content-ID: 2",
    "Accept: application/json;odata=minimalmetadata",
    "If-Match: *",
    "DataServiceVersion: 3.0;",
    "",
    "",
    "--changeset_b1--",
    "--batch_a1--",
    "",
  );
}

const EXAMPLE_QUERY = lines(
  "--batch_a1",
  "Content-Type: application/http",
  "Content-Transfer-Encoding: binary",
  "",
  `GET ${BASE}/People(PartitionKey='p',RowKey='9') HTTP/1.1`,
  "Accept: application/json;odata=minimalmetadata",
  "",
  "--batch_a1--",
  "",
);

describe("A batch body", () => {
  it("is parsed into the operations of its change set", () => {
    const body = exampleChangeset("2");
    assert.equal(body.length, 722);
    assert.deepEqual(readable(parse(body)), [
      {
        method: "POST",
        url: `${BASE}/People`,
        headers: {
          "content-id": "1",
          "content-type": "application/json",
          accept: "application/json;odata=minimalmetadata",
          prefer: "return-no-content",
          dataserviceversion: "3.0;",
        },
        contentId: "1",
        mimeId: undefined,
        body: '{"PartitionKey":"p","RowKey":"1","v":1}',
      },
      {
        method: "DELETE",
        url: `${BASE}/People(PartitionKey='p',RowKey='2')`,
        headers: {
          "content-id": "2",
          accept: "application/json;odata=minimalmetadata",
          "if-match": "*",
          dataserviceversion: "3.0;",
        },
        contentId: "2",
        mimeId: undefined,
        body: "",
      },
    ]);
  });

  it("is parsed into its only query", () => {
    assert.equal(EXAMPLE_QUERY.length, 235);
    const batch = parse(EXAMPLE_QUERY);
    assert.equal(batch.kind, "query");
    assert.deepEqual(readable(batch), [
      {
        method: "GET",
        url: `${BASE}/People(PartitionKey='p',RowKey='9')`,
        headers: { accept: "application/json;odata=minimalmetadata" },
        contentId: undefined,
        mimeId: undefined,
        body: "",
      },
    ]);
  });

  it("may end its lines with LF alone", () => {
    const body = exampleChangeset("2");
    assert.deepEqual(readable(parse(body.replaceAll("\r\n", "\n"))), readable(parse(body)));
  });

  it("may lack the -- of its last boundaries", () => {
    const body = exampleChangeset("2");
    const expected = readable(parse(body));
    assert.deepEqual(readable(parse(body.replace("batch_a1--", "batch_a1"))), expected);
    assert.deepEqual(readable(parse(body.replaceAll("1--", "1").trimEnd())), expected);
    const twice = body.replace("--batch_a1--", "--batch_a1\r\n--batch_a1--\r\nThat was it.");
    assert.deepEqual(readable(parse(twice)), expected);
    assert.deepEqual(readable(parse(body.replace("--batch_a1--", ""))), expected);
  });

  it("may have text around it, and blank lines and spaces around boundaries", () => {
    const body = exampleChangeset("2");
    const padded = `For old readers only.\r\n${body}--That was it.\r\n`
      .replace("--changeset_b1\r\n", "--changeset_b1 \t\r\n")
      .replace("--batch_a1--", "\r\n\r\n--batch_a1--");
    assert.deepEqual(readable(parse(padded)), readable(parse(body)));
  });

  it("may quote its boundary and name the parameter in any case", () => {
    const body = exampleChangeset("2");
    const expected = readable(parse(body));
    for (const type of [
      'multipart/mixed; boundary="batch_a1"',
      "Multipart/Mixed;Boundary=batch_a1",
      "multipart/mixed; charset=utf-8; boundary=batch_a1; type=x",
    ]) {
      assert.deepEqual(readable(parse(body, type)), expected, type);
    }
  });

  it("may have a boundary that is a prefix of its change set's boundary", () => {
    const body = exampleChangeset("2");
    const expected = readable(parse(body));
    assert.deepEqual(readable(parse(body.replaceAll("changeset_b1", "batch_a1_b1"))), expected);
    assert.deepEqual(readable(parse(body.replaceAll("changeset_b1", "batch_a1-"))), expected);
  });

  it("may have a boundary of 70 characters", () => {
    const boundary = "b".repeat(70);
    const body = exampleChangeset("2");
    const named = parse(
      body.replaceAll("batch_a1", boundary),
      `multipart/mixed; boundary=${boundary}`,
    );
    assert.deepEqual(readable(named), readable(parse(body)));
  });

  it("may write its methods in any case", () => {
    const [operation] = operations(changeset(["pAtch t(PartitionKey='p',RowKey='r') HTTP/1.1"]));
    assert.equal(operation?.method, "PATCH");
    const query = parse(EXAMPLE_QUERY.replace("GET", "get"));
    assert.equal(query.kind === "query" && query.part.method, "GET");
  });

  it("may use HTTP/1.0", () => {
    assert.equal(operations(changeset(["POST t HTTP/1.0"])).length, 1);
  });

  it("keeps every header of a part that follows a similar part with fewer headers", () => {
    const line = "PUT /People(PartitionKey='p',RowKey='1') HTTP/1.1";
    const whole = lines(line, "If-Match: *", "Accept: a/b");
    for (const before of [line, lines(line, "If-Match: *").trimEnd()]) {
      const [, second] = operations(changeset([before, whole]));
      assert.deepEqual(
        [...second!.headers],
        [
          ["if-match", "*"],
          ["accept", "a/b"],
        ],
      );
    }
  });

  it("may contain the part headers and blank lines of the JavaScript client", () => {
    const [operation] = operations(
      lines(
        "--batch_a1",
        "content-type: multipart/mixed; boundary=changeset_b1",
        "",
        "",
        "--changeset_b1",
        "content-type: application/http",
        "content-transfer-encoding: binary",
        "",
        `PATCH ${BASE}/People(PartitionKey='p',RowKey='1') HTTP/1.1`,
        "accept: application/json",
        "if-match: *",
        "",
        "",
        '{"v":2}',
        "--changeset_b1--",
        "--batch_a1",
      ),
    );
    assert.equal(operation?.method, "PATCH");
    assert.equal(text(operation!), '{"v":2}');
  });

  it("keeps both values of a repeated If-Match", () => {
    const request = lines(
      "DELETE /People(PartitionKey='p',RowKey='1') HTTP/1.1",
      'If-Match: W/"1"',
      "Accept: text/plain",
      "if-match: *",
      "Accept: application/json",
      "",
      "",
    );
    const [operation] = operations(changeset([request]));
    assert.equal(operation?.headers.get("if-match"), 'W/"1", *');
    assert.equal(operation?.headers.get("accept"), "application/json");
  });

  it("echoes the Content-ID of a request, and not that of the part around it", () => {
    const [operation] = operations(
      lines(
        "--batch_a1",
        "Content-Type: multipart/mixed; boundary=changeset_b1",
        "",
        "--changeset_b1",
        "Content-Type: application/http",
        "Content-Transfer-Encoding: binary",
        "Content-ID: 0",
        "",
        "POST /People HTTP/1.1",
        "Content-Length: 9999",
        "",
        "{}",
        "--changeset_b1--",
        "--batch_a1--",
      ),
    );
    assert.equal(operation?.contentId, undefined);
    assert.equal(operation?.url, "/People");
    assert.equal(text(operation!), "{}");
  });

  it("may have a space between the keys of a URL", () => {
    const [operation] = operations(changeset(["DELETE t(PartitionKey='p', RowKey='r') HTTP/1.1"]));
    assert.equal(operation?.url, "t(PartitionKey='p', RowKey='r')");
  });

  it("keeps the bytes of request bodies that are not text", () => {
    const [before, after] = changeset(["POST t HTTP/1.1\r\n\r\n@"]).split("@");
    const body = Uint8Array.of(0, 255, 13, 10, 45, 45, 0xed, 0xa0, 0x80);
    const batch = parseBatch(TYPE, join([encode(before!), body, encode(after!)]));
    assert.deepEqual(batch.kind === "changeset" && batch.operations[0]?.body, body);
  });

  it("is parsed up to 101 operations, which stand for any number above 100", () => {
    const count = (n: number) => operations(changeset(Array(n).fill("POST t HTTP/1.1"))).length;
    assert.equal(count(100), 100);
    assert.equal(count(101), 101);
    assert.equal(count(150), 101);
  });
});

describe("A batch body is refused", () => {
  const one = changeset(["POST t HTTP/1.1"]);
  const refused: Record<string, string> = {
    "when it is empty": "",
    "when its boundary never occurs": one.replaceAll("batch_a1", "batch_a2"),
    "when it has no parts": "--batch_a1--\r\n",
    "when it is closed before its part": one.replace("--batch_a1", "--batch_a1--"),
    "when its part is of another type": one.replace("multipart/mixed", "multipart/related"),
    "when its change set is empty": changeset([]),
    "when it has two change sets": one.replace("--batch_a1--", one),
    "when a query follows the change set": one.replace("--batch_a1--", EXAMPLE_QUERY),
    "when it has two queries": EXAMPLE_QUERY.replace("--batch_a1--", EXAMPLE_QUERY),
    "when a query is in the change set": changeset(["GET t HTTP/1.1"]),
    "when a query in lower case is in the change set": changeset(["get t HTTP/1.1"]),
    "when a write is outside the change set": EXAMPLE_QUERY.replace("GET", "DELETE"),
    "when a batch is in the change set": one.replace("application/http", "multipart/mixed"),
    "when a request has no version": changeset(["POST t"]),
    "when a request has no URL": changeset(["POST HTTP/1.1"]),
    "when a header line has no colon": changeset(["POST t HTTP/1.1\r\nIf-Match"]),
    "when a header is folded": changeset(["POST t HTTP/1.1\r\nAccept: a\r\n b: c"]),
    "when a header contains CR": changeset(["POST t HTTP/1.1\r\nContent-ID: 1\rX: y"]),
    "when a header contains NUL": changeset(["POST t HTTP/1.1\r\nContent-ID: \0"]),
  };
  for (const [name, body] of Object.entries(refused)) {
    it(name, () => assertRefused(() => parse(body)));
  }

  it("when the type is not multipart/mixed or has no boundary", () => {
    const types = [
      "application/json",
      "multipart/mixed",
      "multipart/mixed; boundary=",
      "multipart/mixedly; boundary=batch_a1",
      "text/plain",
    ];
    types.push("multipart/mixed; boundary=bätch");
    for (const type of types) assertRefused(() => parse(one, type));
    const long = "b".repeat(71);
    assertRefused(() =>
      parse(one.replaceAll("batch_a1", long), `multipart/mixed; boundary=${long}`),
    );
    assertRefused(() => parseBatch(undefined, encode(one)));
  });

  it("when a part has too many or too long headers", () => {
    const most = LIMITS.batchPartHeadersMax;
    // The end of the part follows the headers, or a blank line and a body.
    for (const rest of ["", "\r\n\r\n{}"]) {
      const part = (n: number) =>
        changeset([`POST t HTTP/1.1\r\n${Array(n).fill("A: b").join("\r\n")}${rest}`]);
      for (const n of [most - 1, most]) assert.equal(operations(part(n)).length, 1);
      assertRefused(() => parse(part(most + 1)));
    }
    // The headers around a request: of a part, and of the change set.
    const one = changeset(["POST t HTTP/1.1"]);
    for (const place of ["Content-Type: multipart", "Content-Type: application"]) {
      const more = (n: number) => one.replace(place, `${"A: b\r\n".repeat(n - 1)}$&`);
      for (const n of [most - 1, most]) assert.equal(operations(more(n)).length, 1);
      assertRefused(() => parse(more(most + 1)));
    }
    const long = "x".repeat(LIMITS.headersBytesMax);
    assertRefused(() => parse(changeset([`POST t HTTP/1.1\r\nA: ${long}`])));
    const half = "x".repeat(LIMITS.headersBytesMax / 2);
    assertRefused(() => parse(changeset([`POST ${half} HTTP/1.1\r\nA: ${half}`])));
    assertRefused(() =>
      parse(changeset(["POST t HTTP/1.1"]).replace("Content-Type: a", `A: ${long}\r\n$&`)),
    );
  });

  it("when it is longer than 4 MiB, as RequestBodyTooLarge", () => {
    const body = new Uint8Array(LIMITS.bodyBytesMax + 1);
    assert.throws(() => parseBatch(TYPE, body), { code: "RequestBodyTooLarge" });
  });

  it("when it is cut anywhere before its change set is closed", () => {
    const body = exampleChangeset("2");
    const whole = readable(parse(body));
    const closed = body.indexOf("--changeset_b1--") + "--changeset_b1--".length;
    for (let length = 0; length < body.length; length++) {
      const cut = body.slice(0, length);
      if (length < closed) assertRefused(() => parse(cut));
      else assert.deepEqual(readable(parse(cut)), whole);
    }
  });

  it("when a query is cut anywhere", () => {
    const whole = EXAMPLE_QUERY.indexOf("--batch_a1--") + "--batch_a1".length;
    for (let length = 0; length < whole; length++) {
      assertRefused(() => parse(EXAMPLE_QUERY.slice(0, length)));
    }
  });
});

describe("Any batch", () => {
  const header = fc.tuple(
    fc.stringMatching(/^[A-Za-z][A-Za-z0-9-]{0,12}$/),
    fc.stringMatching(/^[!-~]([ -~]{0,20}[!-~])?$/),
  );
  const operation = fc.record({
    method: fc.constantFrom("POST", "PUT", "MERGE", "PATCH", "DELETE"),
    url: fc.stringMatching(/^[!-~]{1,30}$/),
    headers: fc.array(header, { maxLength: 5 }),
    body: fc.oneof(fc.json().map(encode), fc.uint8Array({ maxLength: 40 })).filter(isPlainBody),
  });
  /** The differences between clients, drawn for each line. */
  const dialect = fc.record({
    feeds: fc.array(fc.constantFrom("\r\n", "\n"), { minLength: 1, maxLength: 7 }),
    blanks: fc.array(fc.nat(2), { minLength: 1, maxLength: 5 }),
    lowerCase: fc.boolean(),
    preamble: fc.constantFrom("", "preamble", "--batch", "batch_a1"),
    end: fc.constantFrom("--batch_a1--", "--batch_a1", "--batch_a1-- \t", "\n--batch_a1--\r\nx"),
    partContentId: fc.boolean(),
  });

  it("is parsed to the same operations in every dialect", () => {
    fc.assert(
      fc.property(fc.array(operation, { minLength: 1, maxLength: 6 }), dialect, (given, how) => {
        const batch = parseBatch(TYPE, printIn(how, given));
        assert.equal(batch.kind, "changeset");
        assert.deepEqual(
          batch.kind === "changeset" &&
            batch.operations.map(({ method, url, headers, body }) => ({
              method,
              url,
              headers: [...headers],
              body: [...body],
            })),
          given.map(({ method, url, headers, body }) => ({
            method,
            url,
            headers: [...new Map(headers.map(([name, value]) => [name.toLowerCase(), value]))],
            body: [...body],
          })),
        );
      }),
    );
  });

  it("is parsed or refused, whatever its bytes", () => {
    const edit = fc.record({
      at: fc.nat(800),
      remove: fc.nat(60),
      insert: fc.oneof(
        fc.constantFrom("\r\n", "\n", "\r\n\r\n", "--batch_a1", "--changeset_b1", "--", ":", "\r"),
        fc.string({ maxLength: 8 }),
      ),
    });
    fc.assert(
      fc.property(
        fc.constantFrom(exampleChangeset("2"), EXAMPLE_QUERY),
        fc.array(edit, { maxLength: 6 }),
        (body, edits) => {
          let edited = body;
          for (const { at, remove, insert } of edits) {
            edited = edited.slice(0, at) + insert + edited.slice(at + remove);
          }
          assertReadOrRefused(TYPE, encode(edited));
        },
      ),
      { numRuns: 1000 },
    );
    fc.assert(
      fc.property(fc.string(), fc.uint8Array(), (type, body) => {
        assertReadOrRefused(type, body);
        assertReadOrRefused(`multipart/mixed; boundary=${type}`, body);
      }),
    );
  });
});

interface GivenOperation {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Uint8Array;
}

interface Dialect {
  readonly feeds: readonly string[];
  readonly blanks: readonly number[];
  readonly lowerCase: boolean;
  readonly preamble: string;
  readonly end: string;
  readonly partContentId: boolean;
}

function printIn(dialect: Dialect, given: readonly GivenOperation[]): Uint8Array {
  const { feeds, blanks, lowerCase, partContentId } = dialect;
  const chunks: Uint8Array[] = [];
  let count = 0;
  const line = (content: string) => chunks.push(encode(content + feeds[count++ % feeds.length]));
  const blank = () => {
    for (let more = blanks[count % blanks.length]!; more >= 0; more--) line("");
  };
  const name = (header: string) => (lowerCase ? header.toLowerCase() : header);
  if (dialect.preamble !== "") line(dialect.preamble);
  line("--batch_a1");
  line(`${name("Content-Type")}: multipart/mixed; boundary="changeset b1"`);
  blank();
  for (const { method, url, headers, body } of given) {
    line("--changeset b1");
    line(`${name("Content-Type")}: application/http`);
    if (partContentId) line(`${name("Content-ID")}: ${count}`);
    blank();
    line(`${method} ${url} HTTP/1.1`);
    for (const [header, value] of headers) line(`${header}: ${value}`);
    blank();
    chunks.push(body);
    line("");
  }
  line("--changeset b1--");
  chunks.push(encode(dialect.end));
  return join(chunks);
}

/** A body that has no line breaks at its ends and contains no boundary. */
function isPlainBody(body: Uint8Array): boolean {
  const ends = [body[0], body.at(-1)];
  return !ends.includes(10) && !ends.includes(13);
}

const TYPE = "multipart/mixed; boundary=batch_a1";

function changeset(requests: readonly string[]): string {
  const parts = requests.map(
    (request) => `--changeset_b1\r\nContent-Type: application/http\r\n\r\n${request}\r\n\r\n\r\n`,
  );
  const type = "Content-Type: multipart/mixed; boundary=changeset_b1";
  return `--batch_a1\r\n${type}\r\n\r\n${parts.join("")}--changeset_b1--\r\n--batch_a1--\r\n`;
}

function parse(body: string, type = TYPE): Batch {
  return parseBatch(type, encode(body));
}

function operations(body: string): readonly BatchPart[] {
  const batch = parse(body);
  return batch.kind === "changeset" ? batch.operations : [];
}

function readable(batch: Batch): object[] {
  const parts = batch.kind === "changeset" ? batch.operations : [batch.part];
  return parts.map((part) => ({
    ...part,
    headers: Object.fromEntries(part.headers),
    body: text(part),
  }));
}

function assertRefused(read: () => unknown): void {
  assert.throws(read, { name: "ServiceError", code: "InvalidInput", status: 400 });
}

function assertReadOrRefused(type: string, body: Uint8Array): void {
  try {
    parseBatch(type, body);
  } catch (error) {
    assert.ok(error instanceof ServiceError, String(error));
  }
}

function lines(...content: readonly string[]): string {
  return content.join("\r\n");
}

function encode(content: string): Uint8Array {
  return new TextEncoder().encode(content);
}

function text(part: BatchPart): string {
  return new TextDecoder().decode(part.body);
}

function join(chunks: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(chunks.flatMap((chunk) => [...chunk]));
}
