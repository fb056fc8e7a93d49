import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { assertRefused } from "./refusals.ts";
import {
  type BatchedCall,
  batchedQuery,
  changeset,
  readBatch,
  rowsOf,
  sendBatch,
  sendChangeset,
} from "./table-batch.ts";
import { accountSas, type SasFields, tableSas } from "./table-sas.ts";
import { WireTarget } from "./table-target.ts";

const target = await WireTarget.open();
after(() => target.close());
const { wire } = target;
const table = await target.table();

let partitions = 0;
/** A new partition. */
const fresh = () => `p${partitions++}`;
const insert = (PartitionKey: string, RowKey: string, more = {}): BatchedCall => ({
  method: "POST",
  path: `/${table}`,
  body: { PartitionKey, RowKey, ...more },
  headers: { Prefer: "return-no-content" },
});
const to = (
  method: string,
  partition: string,
  row: string,
  headers = {},
  body?: object,
): BatchedCall => ({
  method,
  path: `/${table}(PartitionKey='${partition}',RowKey='${row}')`,
  headers,
  ...(body && { body }),
});

describe("An accepted transaction", () => {
  it("applies every kind of write, and answers each in the recorded form", async () => {
    const p = fresh();
    for (const row of ["replaced", "merged", "deleted"]) {
      await target.insert(table, { PartitionKey: p, RowKey: row, v: "old", kept: 1 });
    }
    const answer = await sendChangeset(wire, [
      insert(p, "quiet", { v: 1 }),
      { ...insert(p, "shown", { v: 2 }), headers: { Prefer: "return-content", "Content-ID": "2" } },
      { ...insert(p, "plain", { v: 3 }), headers: { "Content-ID": "3" } },
      to("PUT", p, "upserted", { "Content-ID": "4" }, { v: 4 }),
      to("PATCH", p, "upmerged", {}, { v: 5 }),
      to("PUT", p, "replaced", { "If-Match": "*" }, { v: 6 }),
      to("MERGE", p, "merged", { "If-Match": "*" }, { v: 7 }),
      to("DELETE", p, "deleted", { "If-Match": "*", "Content-ID": "8" }),
      to("POST", p, "tunnelled", { "X-HTTP-Method": "MERGE" }, { v: 9 }),
    ]);
    assert.equal(answer.status, 202);
    const boundary = /^multipart\/mixed; boundary=(batchresponse_[0-9a-f-]{36})$/.exec(
      answer.header("content-type")!,
    )![1]!;
    assert.equal(answer.header("cache-control"), "no-cache");
    assert.equal(answer.header("x-content-type-options"), "nosniff");
    const inner = /boundary=(changesetresponse_[0-9a-f-]{36})\r\n/.exec(answer.text)![1]!;
    const etag = 'ETag: W/"T"\r\n';
    const quiet = "X-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\n";
    const json =
      "Content-Type: application/json;odata=minimalmetadata;streaming=true;charset=utf-8\r\n";
    const place = (row: string) => `${target.url}/${table}(PartitionKey='${p}',RowKey='${row}')`;
    const entity = (row: string, v: number) =>
      `{"odata.metadata":"${target.url}/$metadata#${table}/@Element","odata.etag":"T","PartitionKey":"${p}","RowKey":"${row}","Timestamp":"T","v":${v}}`;
    const written = (id = "") =>
      `HTTP/1.1 204 No Content\r\n${id}${quiet}DataServiceVersion: 1.0;\r\n${etag}\r\n\r\n`;
    const parts = [
      `HTTP/1.1 204 No Content\r\n${quiet}Preference-Applied: return-no-content\r\nDataServiceVersion: 3.0;\r\n` +
        `Location: ${place("quiet")}\r\nDataServiceId: ${place("quiet")}\r\n${etag}\r\n\r\n`,
      `HTTP/1.1 201 Created\r\nDataServiceVersion: 3.0;\r\n${json}Content-ID: 2\r\n${quiet}Preference-Applied: return-content\r\n` +
        `Location: ${place("shown")}\r\n${etag}\r\n${entity("shown", 2)}\r\n`,
      `HTTP/1.1 201 Created\r\nDataServiceVersion: 3.0;\r\n${json}Content-ID: 3\r\n${quiet}` +
        `Location: ${place("plain")}\r\n${etag}\r\n${entity("plain", 3)}\r\n`,
      written("Content-ID: 4\r\n"),
      written(),
      written(),
      written(),
      `HTTP/1.1 204 No Content\r\nContent-ID: 8\r\n${quiet}DataServiceVersion: 1.0;\r\n\r\n\r\n`,
      written(),
    ].map(
      (part) =>
        `--${inner}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n${part}`,
    );
    assert.equal(
      answer.text
        .replace(/ETag: W\/"datetime'[^']+'"/g, 'ETag: W/"T"')
        .replace(/"odata.etag":"[^,]*"/g, '"odata.etag":"T"')
        .replace(/"Timestamp":"[^"]*"/g, '"Timestamp":"T"'),
      `--${boundary}\r\nContent-Type: multipart/mixed; boundary=${inner}\r\n\r\n${parts.join("")}--${inner}--\r\n--${boundary}--\r\n`,
    );
    assert.deepEqual(await rowsOf(wire, table, p), {
      merged: 7,
      plain: 3,
      quiet: 1,
      replaced: 6,
      shown: 2,
      tunnelled: 9,
      upmerged: 5,
      upserted: 4,
    });
    const merged = await wire.send("GET", to("GET", p, "merged").path);
    assert.match(merged.text, /"kept":1/);
  });

  it("returns the ETags that the entities have afterwards", async () => {
    const p = fresh();
    const parts = readBatch(await sendChangeset(wire, [insert(p, "a"), to("PUT", p, "b", {}, {})]));
    for (const [i, row] of ["a", "b"].entries()) {
      const read = await wire.send("GET", to("GET", p, row).path);
      assert.equal(parts[i]!.headers.ETag, read.header("etag"));
    }
  });

  it("does not reuse the boundaries of the request", async () => {
    const boundaries = new Set<string>();
    for (let i = 0; i < 3; i++) {
      const answer = await sendChangeset(wire, [insert(fresh(), "a")]);
      boundaries.add(answer.header("content-type")!);
    }
    assert.equal(boundaries.size, 3);
  });

  it("may have 100 operations", async () => {
    const p = fresh();
    const rows = Array.from({ length: 100 }, (_, i) => `r${String(i).padStart(2, "0")}`);
    const parts = readBatch(
      await sendChangeset(
        wire,
        rows.map((row) => insert(p, row, { v: 1 })),
      ),
    );
    assert.equal(parts.length, 100);
    assert.deepEqual(Object.keys(await rowsOf(wire, table, p)), rows);
  });

  it("may have a body of 4 MiB, and no longer one", async () => {
    const p = fresh();
    const body = changeset([insert(p, "a")]);
    const whole = `${body}${"\r\n".padEnd(4 * 1024 * 1024 - body.length, " ")}`;
    assert.deepEqual(
      readBatch(await sendBatch(wire, whole)).map(({ status }) => status),
      [204],
    );
    assertRefused(await sendBatch(wire, `${whole} `), { status: 413, code: "RequestBodyTooLarge" });
  });
});

describe("A transaction", () => {
  const cases: Record<
    string,
    (p: string) => [BatchedCall, status: number, code: string, message: string]
  > = {
    "an entity that exists": (p) => [
      insert(p, "there"),
      409,
      "EntityAlreadyExists",
      "The specified entity already exists.",
    ],
    "an update of a missing entity": (p) => [
      to("PUT", p, "none", { "If-Match": "*" }, {}),
      404,
      "ResourceNotFound",
      "The specified resource does not exist.",
    ],
    "a merge of a missing entity": (p) => [
      to("MERGE", p, "none", { "If-Match": "*" }, {}),
      404,
      "ResourceNotFound",
      "The specified resource does not exist.",
    ],
    "a delete of a missing entity": (p) => [
      to("DELETE", p, "none", { "If-Match": "*" }),
      404,
      "ResourceNotFound",
      "The specified resource does not exist.",
    ],
    "a stale ETag": (p) => [
      to("PUT", p, "there", { "If-Match": `W/"datetime'2012-06-15T22%3A51%3A44Z'"` }, {}),
      412,
      "UpdateConditionNotSatisfied",
      "The update condition specified in the request was not satisfied.",
    ],
    "a property too large": (p) => [
      to("PUT", p, "big", {}, { s: "x".repeat(32_769) }),
      400,
      "PropertyValueTooLarge",
      "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.",
    ],
    "a merge that exceeds the property limit": (p) => [
      to(
        "MERGE",
        p,
        "there",
        {},
        Object.fromEntries(Array.from({ length: 252 }, (_, i) => [`p${i}`, i])),
      ),
      400,
      "TooManyProperties",
      "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.",
    ],
    "an invalid key": (p) => [
      insert(p, "a/b"),
      400,
      "OutOfRangeInput",
      "The 'RowKey' parameter of value 'a/b' is out of range.",
    ],
  };
  for (const [what, draw] of Object.entries(cases)) {
    it(`failed by ${what} reports the operation's index and applies nothing`, async () => {
      for (const index of [0, 1, 12]) {
        const p = fresh();
        await target.insert(table, { PartitionKey: p, RowKey: "there", v: 0 });
        const [call, status, code, message] = draw(p);
        const others = Array.from({ length: 14 }, (_, i) => insert(p, `r${i}`));
        const parts = readBatch(await sendChangeset(wire, others.toSpliced(index, 0, call)));
        assert.deepEqual(
          parts.map((part) => [part.status, part.code, part.message]),
          [[status, code, `${index}:${message}`]],
        );
        assert.deepEqual(await rowsOf(wire, table, p), { there: 0 });
      }
    });

    it(`failed by ${what} reports no index if that is its only operation`, async () => {
      const p = fresh();
      await target.insert(table, { PartitionKey: p, RowKey: "there", v: 0 });
      const [call, status, code, message] = draw(p);
      const [part] = readBatch(await sendChangeset(wire, [call]));
      assert.deepEqual([part!.status, part!.code, part!.message], [status, code, message]);
    });
  }

  it("that fails returns Preference-Applied and Content-ID, in the recorded order of headers", async () => {
    const p = fresh();
    await target.insert(table, { PartitionKey: p, RowKey: "there" });
    const call = {
      ...insert(p, "there"),
      headers: { Prefer: "return-content", "Content-ID": "one" },
    };
    const answer = await sendChangeset(wire, [insert(p, "a"), call]);
    assert.match(
      answer.text,
      /\r\n\r\nHTTP\/1\.1 409 Conflict\r\nContent-ID: one\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\nPreference-Applied: return-content\r\nDataServiceVersion: 3\.0;\r\nContent-Type: application\/json;odata=minimalmetadata;streaming=true;charset=utf-8\r\n\r\n\{"odata\.error"/,
    );
  });

  it("reads a method in lower case like one in upper case, also when its insert fails", async () => {
    const p = fresh();
    const call = { ...insert(p, "there"), method: "post" };
    const [done] = readBatch(await sendChangeset(wire, [call]));
    assert.equal(done!.status, 204);
    const [failed] = readBatch(await sendChangeset(wire, [call]));
    assert.equal(failed!.status, 409);
    assert.equal(failed!.headers["Preference-Applied"], "return-no-content");
    const query = batchedQuery(`/${table}(PartitionKey='${p}',RowKey='there')`);
    const [found] = readBatch(await sendBatch(wire, query.replace("GET", "get")));
    assert.equal(found!.status, 200);
  });

  it("that fails in an update returns no Preference-Applied, because updates never return a body", async () => {
    const call = to(
      "POST",
      fresh(),
      "none",
      {
        "X-HTTP-Method": "MERGE",
        "If-Match": "*",
        Prefer: "return-content",
      },
      {},
    );
    const [part] = readBatch(await sendChangeset(wire, [call]));
    assert.equal(part!.status, 404);
    assert.equal("Preference-Applied" in part!.headers, false);
  });

  it("reports its first failure in the order of operations", async () => {
    const p = fresh();
    await target.insert(table, { PartitionKey: p, RowKey: "there" });
    const parts = readBatch(
      await sendChangeset(wire, [
        insert(p, "a"),
        insert(p, "there"),
        to("DELETE", p, "none", { "If-Match": "*" }),
      ]),
    );
    assert.deepEqual(
      parts.map(({ message }) => message),
      ["1:The specified entity already exists."],
    );
  });

  it("reports duplicate rows and foreign partitions before failures of single entities", async () => {
    const p = fresh();
    await target.insert(table, { PartitionKey: p, RowKey: "there" });
    const [twice] = readBatch(
      await sendChangeset(wire, [insert(p, "there"), insert(p, "x"), insert(p, "x")]),
    );
    assert.equal(
      twice!.message,
      "2:The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.",
    );
    assert.equal(twice!.code, "InvalidDuplicateRow");
    const [other] = readBatch(
      await sendChangeset(wire, [insert(p, "there"), insert(p, "x"), insert(fresh(), "y")]),
    );
    assert.equal(other!.message, "2:All commands in a batch must operate on same entity group.");
  });

  it("on a missing table reports TableNotFound with an index and without Cache-Control", async () => {
    for (const count of [1, 2]) {
      const p = fresh();
      const calls = Array.from({ length: count }, (_, i) => ({
        ...insert(p, `${i}`),
        path: "/Nobody",
      }));
      const [part] = readBatch(await sendChangeset(wire, calls));
      assert.deepEqual(
        [part!.status, part!.code, part!.message],
        [404, "TableNotFound", "0:The table specified does not exist."],
      );
      assert.equal(part!.headers["Cache-Control"], undefined);
    }
  });

  it("must stay within one table, in any case of its name", async () => {
    const p = fresh();
    const other = await target.table();
    const [part] = readBatch(
      await sendChangeset(wire, [insert(p, "a"), { ...insert(p, "b"), path: `/${other}` }]),
    );
    assert.deepEqual(
      [part!.code, part!.message?.slice(0, 2)],
      ["CommandsInBatchActOnDifferentPartitions", "1:"],
    );
    const parts = readBatch(
      await sendChangeset(wire, [
        insert(p, "a"),
        { ...insert(p, "b"), path: `/${table.toUpperCase()}` },
      ]),
    );
    assert.deepEqual(
      parts.map(({ status }) => status),
      [204, 204],
    );
  });

  it("refuses everything but writes of entities", async () => {
    for (const call of [
      { method: "POST", path: "/Tables", body: { TableName: "Inside" } },
      { method: "DELETE", path: `/Tables('${table}')` },
      { method: "PUT", path: `/${table}?comp=acl` },
      { method: "POST", path: "/$batch" },
      { method: "PUT", path: `/${table}`, body: {} },
      { method: "PUT" },
      { path: `/${table}(PartitionKey='p',RowKey='r')` },
      { headers: { "X-HTTP-Method": "PUT" } },
      { method: "POST", path: `/${table}/deep`, body: {} },
      { method: "OPTIONS", path: `/${table}` },
      { method: "DELETE", path: `/${table}(PartitionKey='p',RowKey='r')`, headers: {} },
    ]) {
      const p = fresh();
      // As the insert before it, but for what the call names.
      const alike = { ...insert(p, "b"), ...call };
      const [part, ...others] = readBatch(await sendChangeset(wire, [insert(p, "a"), alike]));
      assert.deepEqual(others, []);
      assert.equal(part!.status, 400, JSON.stringify(call));
      assert.match(part!.message!, /^1:/);
      assert.deepEqual(await rowsOf(wire, table, p), {});
    }
  });

  it("refuses an invalid X-HTTP-Method, as a single request does", async () => {
    const lines = "X-HTTP-Method: MERGE\r\nx-http-method";
    for (const [method, headers, code] of [
      ["PUT", { "X-HTTP-Method": "MERGE" }, "XMethodNotUsingPost"],
      ["DELETE", { "X-HTTP-Method": "PUT", "If-Match": "*" }, "XMethodNotUsingPost"],
      ["POST", { "X-HTTP-Method": "GET" }, "XMethodIncorrectValue"],
      ["POST", { "X-HTTP-Method": "" }, "XMethodIncorrectValue"],
      ["POST", { [lines]: "MERGE" }, "XMethodIncorrectCount"],
    ] as const) {
      const p = fresh();
      const calls = [insert(p, "a"), to(method, p, "b", headers, { v: 1 })];
      const [part, ...others] = readBatch(await sendChangeset(wire, calls));
      assert.deepEqual([others.length, part!.status, part!.code], [0, 400, code]);
      assert.match(part!.message!, /^1:/);
      assert.deepEqual(await rowsOf(wire, table, p), {});
    }
    const query = batchedQuery(`/${table}`, { "X-HTTP-Method": "MERGE" });
    assert.equal(readBatch(await sendBatch(wire, query))[0]!.code, "XMethodNotUsingPost");
  });

  it("accepts a table whose name starts with the account's name", async () => {
    const p = fresh();
    for (const called of [target.account, `${target.account}s`]) {
      await wire.send("POST", "/Tables", { body: { TableName: called } });
      const [part] = readBatch(
        await sendChangeset(wire, [{ ...insert(p, "a"), path: `/${called}` }]),
      );
      assert.equal(part!.status, 204, called);
      assert.deepEqual(await rowsOf(wire, called, p), { a: null });
      await wire.send("DELETE", `/Tables('${called}')`);
    }
  });

  it("refuses malformed addresses and queries of its operations", async () => {
    for (const path of [
      `/${table}?%zz`,
      `/${table}?$format=%zz`,
      "/%zz",
      `/${table}(PartitionKey='p`,
    ]) {
      const [part] = readBatch(
        await sendChangeset(wire, [insert("p", "a"), { method: "PUT", path, body: {} }]),
      );
      assert.equal(part!.status, 400, path);
    }
  });

  it("needs a SAS with the one permission that its operation needs", async () => {
    const p = fresh();
    const steps = [
      ["a", insert(p, "r")],
      ["u", to("MERGE", p, "r", { "If-Match": "*" }, { v: 1 })],
      ["d", to("DELETE", p, "r", { "If-Match": "*" })],
    ] as const;
    for (const token of [
      (sp: string) => tableSas(target, table, { sp }),
      (sp: string) => accountSas(target, { srt: "o", sp }),
    ]) {
      for (const [letter, call] of steps) {
        for (const sp of ["raud".replace(letter, ""), letter]) {
          const as = { as: { kind: "sas" as const, token: token(sp) } };
          const [part] = readBatch(await sendChangeset(wire, [call], as));
          assert.equal(part!.status, sp === letter ? 204 : 403, `${call.method} by ${sp}`);
        }
      }
      const as = { as: { kind: "sas" as const, token: token("r") } };
      const [list] = readBatch(await sendBatch(wire, batchedQuery(`/${table}()?$top=1`), as));
      assert.equal(list!.status, 200);
    }
  });

  it("is checked against a SAS operation by operation", async () => {
    const p = fresh();
    const as = (fields: SasFields) => ({
      as: { kind: "sas" as const, token: tableSas(target, table, fields) },
    });
    const calls = [insert(p, "b"), insert(p, "c"), insert(p, "d")];
    const [part] = readBatch(
      await sendChangeset(wire, calls, as({ spk: p, srk: "a", epk: p, erk: "c" })),
    );
    assert.deepEqual(
      [part!.status, part!.code, part!.message],
      [403, "AuthorizationFailure", "2:This request is not authorized to perform this operation."],
    );
    assert.deepEqual(await rowsOf(wire, table, p), {});
    const [upsert] = readBatch(
      await sendChangeset(wire, [insert(p, "b"), to("PUT", p, "c", {}, {})], as({ sp: "a" })),
    );
    assert.deepEqual([upsert!.status, upsert!.code], [403, "AuthorizationPermissionMismatch"]);
    const allowed = await sendChangeset(
      wire,
      calls.slice(0, 2),
      as({ spk: p, srk: "a", epk: p, erk: "c", sp: "a" }),
    );
    assert.deepEqual(
      readBatch(allowed).map(({ status }) => status),
      [204, 204],
    );
    const other = await target.table();
    const [elsewhere] = readBatch(
      await sendChangeset(wire, [{ ...insert(p, "z"), path: `/${other}` }], as({})),
    );
    assert.deepEqual([elsewhere!.status, elsewhere!.code], [403, "AuthorizationFailure"]);
  });
});

describe("A malformed batch", () => {
  const part = "Content-Type: application/http\r\n\r\n";
  const set = (inner: string) =>
    `--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n${inner}--changeset_1--\r\n`;
  const whole = (p: string) => changeset([insert(p, "a"), insert(p, "b")]);
  const bodies: Record<string, (p: string) => string> = {
    "an empty body": () => "",
    "no part": () => "--batch_1--\r\n",
    "an empty change set": () => `${set("")}--batch_1--\r\n`,
    "two change sets": (p) => whole(p).replace(/--batch_1--\r\n$/, "") + whole(fresh()),
    "a query after a change set": (p) =>
      whole(p).replace(/--batch_1--\r\n$/, "") + batchedQuery(`/${table}`),
    "a change set after a query": (p) =>
      batchedQuery(`/${table}`).replace(/--batch_1--\r\n$/, "") + whole(p),
    "two queries": () =>
      batchedQuery(`/${table}`).replace(/--batch_1--\r\n$/, "") + batchedQuery(`/${table}`),
    "a query inside a change set": (p) =>
      changeset([insert(p, "a"), { method: "GET", path: `/${table}` }]),
    "a write outside a change set": (p) =>
      `--batch_1\r\n${part}DELETE /${table}(PartitionKey='${p}',RowKey='a') HTTP/1.1\r\nIf-Match: *\r\n\r\n--batch_1--\r\n`,
    "a part of another type": (p) => whole(p).replaceAll("application/http", "text/plain"),
    "no request line": () => `${set(`--changeset_1\r\n${part}hello\r\n`)}--batch_1--\r\n`,
    "a malformed header": (p) => whole(p).replace("Prefer: ", "Prefer "),
    "a boundary that differs from the header's": (p) =>
      whole(p).replaceAll("--batch_1", "--batch_2"),
    "an end within its last request": (p) => whole(p).slice(0, -60),
    "an end within its first request": (p) => whole(p).slice(0, 200),
  };
  for (const [what, draw] of Object.entries(bodies)) {
    it(`with ${what} is refused`, async () => {
      const p = fresh();
      assertRefused(await sendBatch(wire, draw(p)), { status: 400, code: "InvalidInput" }, "json");
      assert.deepEqual(await rowsOf(wire, table, p), {});
    });
  }

  it("with another content type or without a boundary is refused", async () => {
    for (const type of [
      "application/json",
      "multipart/mixed",
      "multipart/mixed; boundary=",
      `multipart/mixed; boundary=${"b".repeat(71)}`,
    ]) {
      const answer = await sendBatch(wire, whole(fresh()), { headers: { "Content-Type": type } });
      assertRefused(answer, { status: 400, code: "InvalidInput" });
    }
  });
});

describe("A query in a batch", () => {
  it("returns one entity", async () => {
    const p = fresh();
    await target.insert(table, { PartitionKey: p, RowKey: "r", v: 1 });
    const answer = await sendBatch(wire, batchedQuery(`/${table}(PartitionKey='${p}',RowKey='r')`));
    const [part] = readBatch(answer);
    assert.equal(part!.status, 200);
    const names = Object.keys(part!.headers).filter((name) => !name.startsWith("x-rowhouse-"));
    assert.deepEqual(names, [
      "DataServiceVersion",
      "Content-Type",
      "X-Content-Type-Options",
      "Cache-Control",
      "ETag",
    ]);
    assert.equal((JSON.parse(part!.body) as { v: number }).v, 1);
    assert.equal(answer.text.includes("changesetresponse"), false);
  });

  it("returns a list, with the continuation in the part's headers", async () => {
    const p = fresh();
    for (const row of ["a", "b", "c"]) await target.insert(table, { PartitionKey: p, RowKey: row });
    const filter = encodeURIComponent(`PartitionKey eq '${p}'`);
    const [part] = readBatch(
      await sendBatch(wire, batchedQuery(`/${table}()?$filter=${filter}&$top=2`)),
    );
    assert.equal(part!.status, 200);
    assert.equal((JSON.parse(part!.body) as { value: [] }).value.length, 2);
    assert.equal(part!.headers["x-ms-continuation-NextRowKey"], "1!4!Yw--");
  });

  it("reports a missing entity or table with an index", async () => {
    const [entity] = readBatch(
      await sendBatch(wire, batchedQuery(`/${table}(PartitionKey='none',RowKey='r')`)),
    );
    assert.deepEqual(
      [entity!.status, entity!.code, entity!.message],
      [404, "ResourceNotFound", "0:The specified resource does not exist."],
    );
    const [gone] = readBatch(await sendBatch(wire, batchedQuery("/Nobody()")));
    assert.deepEqual(
      [gone!.status, gone!.code, gone!.message],
      [404, "TableNotFound", "0:The table specified does not exist."],
    );
  });

  it("is limited by a SAS to its range", async () => {
    const p = fresh();
    for (const row of ["a", "b", "c"]) await target.insert(table, { PartitionKey: p, RowKey: row });
    const token = tableSas(target, table, { sp: "r", spk: p, srk: "b", epk: p, erk: "b" });
    const as = { as: { kind: "sas" as const, token } };
    const [list] = readBatch(await sendBatch(wire, batchedQuery(`/${table}()`), as));
    const { value } = JSON.parse(list!.body) as { value: { RowKey: string }[] };
    assert.deepEqual(
      value.map(({ RowKey }) => RowKey),
      ["b"],
    );
    const [outside] = readBatch(
      await sendBatch(wire, batchedQuery(`/${table}(PartitionKey='${p}',RowKey='a')`), as),
    );
    assert.equal(outside!.status, 404);
  });

  it("is refused with a SAS that may not read or is for another table", async () => {
    const other = await target.table();
    for (const [name, sp, code] of [
      [table, "aud", "AuthorizationPermissionMismatch"],
      [other, "r", "AuthorizationFailure"],
    ] as const) {
      const as = { as: { kind: "sas" as const, token: tableSas(target, name, { sp }) } };
      for (const path of [`/${table}()`, `/${table}(PartitionKey='p',RowKey='r')`]) {
        const [part] = readBatch(await sendBatch(wire, batchedQuery(path), as));
        assert.deepEqual([part!.status, part!.code], [403, code]);
      }
    }
  });

  it("may read only entities", async () => {
    for (const path of ["/Tables", `/${table}?comp=acl`, "/", "/%zz"]) {
      const [part] = readBatch(await sendBatch(wire, batchedQuery(path)));
      assert.equal(part!.status, 400, path);
    }
  });
});
