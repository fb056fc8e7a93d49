import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "./errors.ts";
import {
  type SignableRequest,
  sharedKeyLiteStrings,
  sharedKeyStrings,
  tableSharedKeyLiteString,
  tableSharedKeyString,
} from "./shared-key.ts";

const EMPTY = "GET\n\n\n\n\n\n\n\n\n\n\n\n";

describe("The string that a table request signs", () => {
  it("contains the headers as sent, the path as sent and, of the query, only comp", () => {
    const signed = request("PUT", "/People(PartitionKey='a%20b')", "timeout=5&comp=acl", [
      "Content-MD5",
      "md5",
      "content-type",
      "text/xml",
      "X-MS-DATE",
      "now",
      "Date",
      "then",
    ]);
    assert.equal(
      tableSharedKeyString(signed, "acct"),
      "PUT\nmd5\ntext/xml\nnow\n/acct/People(PartitionKey='a%20b')?comp=acl",
    );
    assert.equal(
      tableSharedKeyLiteString(signed, "acct"),
      "now\n/acct/People(PartitionKey='a%20b')?comp=acl",
    );
  });

  it("uses Date if x-ms-date is missing, and empty lines for other missing headers", () => {
    assert.equal(
      tableSharedKeyString(request("GET", "", "", ["Date", "now"]), "a"),
      "GET\n\n\nnow\n/a/",
    );
    assert.equal(tableSharedKeyLiteString(request("GET", "/t", "comp="), "a"), "\n/a/t?comp=");
  });
});

describe("The string that a queue or blob request signs", () => {
  it("has only the documented reading if the query is very long", () => {
    const ways = (length: number) => {
      const query = `a+b=&prefix=${"x".repeat(length)}`;
      const headers = ["Content-Encoding", "gzip", "x-ms-b", "1", "x-ms-a-b", "2", "x-ms-aa", "3"];
      return [...sharedKeyStrings(request("GET", "/c", query, headers), "acct")];
    };
    assert.ok(ways(1_000).length > 8);
    const long = ways(100_000);
    assert.equal(long.length, 1);
    assert.equal(long[0]?.replace("x".repeat(99_000), ""), ways(1_000)[0]);
  });

  it("has only the documented order of headers if they are very many or very long", () => {
    const ways = (more: readonly string[]) => {
      const headers = ["x-ms-b", "1", "x-ms-a-b", "2", "x-ms-aa", "3", ...more];
      const sent = request("GET", "/c", "", headers);
      return [sharedKeyStrings, sharedKeyLiteStrings].map((read) => [...read(sent, "acct")].length);
    };
    const many = Array.from({ length: 200 }, (_, i) => [`x-ms-meta-${i}`, ""]);
    assert.deepEqual(ways([]), [2, 2]);
    assert.deepEqual(ways(many.flat()), [1, 1]);
    assert.deepEqual(ways(["x-ms-c", "x".repeat(20_000)]), [1, 1]);
  });

  it("is refused if a header was sent twice, in any position", () => {
    for (const others of [[], ["x-ms-a", "1"], ["x-ms-z", "1"], ["x-ms-z", "1", "x-ms-a", "2"]]) {
      const sent = request("GET", "/c", "", ["X-Ms-B", "1", ...others, "x-ms-b", "again"]);
      for (const read of [sharedKeyStrings, sharedKeyLiteStrings]) {
        assert.throws(
          () => [...read(sent, "acct")],
          (error) => error instanceof ServiceError && error.code === "InvalidHeaderValue",
        );
      }
    }
  });

  it("has every standard header on its line", () => {
    const names = [
      "Content-Encoding",
      "Content-Language",
      "Content-Length",
      "Content-MD5",
      "Content-Type",
      "Date",
      "If-Modified-Since",
      "If-Match",
      "If-None-Match",
      "If-Unmodified-Since",
      "Range",
    ];
    const headers = names.flatMap((name) => [name, `<${name}>`]).concat("Accept", "x", "Host", "y");
    const [first] = sharedKeyStrings(request("PUT", "/c/b", "", headers), "acct");
    assert.equal(first, `PUT\n${names.map((name) => `<${name}>\n`).join("")}/acct/c/b`);
  });

  it("omits a length of 0, and Date if there is x-ms-date", () => {
    const headers = ["Content-Length", "0", "Date", "then", "x-ms-date", "now"];
    assert.deepEqual(readings("/q", "", headers), [`${EMPTY}x-ms-date:now\n/acct/q`]);
  });

  it("lowers and sorts the names of extension headers", () => {
    const headers = ["X-Ms-Meta-B", " two words ", "x-ms-meta-a", "", "x-other", "z"];
    assert.deepEqual(readings("/q", "", headers), [
      `${EMPTY}x-ms-meta-a:\nx-ms-meta-b:two words\n/acct/q`,
    ]);
  });

  it("folds white space in extension headers as documented, or has it as sent", () => {
    for (const [sent, folded] of [
      ["two  words", "two words"],
      ["a\ttab", "a tab"],
      ["  two \t words  ", "two words"],
    ]) {
      assert.deepEqual(readings("/q", "", ["x-ms-meta-a", "", "x-ms-meta-b", sent!]), [
        `${EMPTY}x-ms-meta-a:\nx-ms-meta-b:${folded}\n/acct/q`,
        `${EMPTY}x-ms-meta-a:\nx-ms-meta-b:${sent!.trim()}\n/acct/q`,
      ]);
    }
  });

  it("decodes, lowers, sorts and joins parameters", () => {
    assert.deepEqual(
      readings("/q%20r", "Prefix=%2Fa&comp=list&INCLUDE=z&include=a%2C&b=%C3%A9", []),
      [`${EMPTY}/acct/q%20r\nb:é\ncomp:list\ninclude:a,,z\nprefix:/a`],
    );
  });

  it("may omit parameters without a value", () => {
    assert.deepEqual(readings("/", "a=&b&c=1&&", []), [
      `${EMPTY}/acct/\na:\nb:\nc:1`,
      `${EMPTY}/acct/\nc:1`,
    ]);
  });

  it("may read a plus as a space", () => {
    assert.deepEqual(readings("/", "a=1+2%2B", []), [
      `${EMPTY}/acct/\na:1+2+`,
      `${EMPTY}/acct/\na:1 2+`,
    ]);
  });

  it("may swap Content-Encoding and Content-Language", () => {
    const swapped = (headers: string[]) =>
      readings("/", "", headers).map((text) => text.split("\n").slice(1, 3).join());
    assert.deepEqual(swapped(["Content-Encoding", "gzip", "Content-Language", "de"]), [
      "gzip,de",
      "de,gzip",
    ]);
    assert.deepEqual(swapped(["Content-Encoding", "gzip"]), ["gzip,", ",gzip"]);
    assert.deepEqual(swapped(["Content-Encoding", "x", "Content-Language", "x"]), ["x,x"]);
  });

  it("may sort metadata in four ways", () => {
    const orders = (names: string) =>
      readings(
        "/",
        "",
        names.split(" ").flatMap((name) => [`x-ms-meta-${name}`, ""]),
      ).map((text) => [...text.matchAll(/x-ms-meta-(.*):/g)].map(([, name]) => name).join(" "));
    assert.deepEqual(orders("b a"), ["a b"], "one where all agree");
    assert.deepEqual(
      orders("a_1 a1"),
      ["a1 a_1", "a_1 a1"],
      "an underscore weighs less than a digit",
    );
    assert.deepEqual(
      orders("a02 a1"),
      ["a02 a1", "a1 a02"],
      "a zero weighs nothing in an old table",
    );
    assert.deepEqual(orders("a_b aa"), ["a_b aa", "aa a_b"], "symbols are ignored");
    assert.deepEqual(
      orders("ab a_b"),
      ["a_b ab", "ab a_b"],
      "and what is then equal stays as it came",
    );
    assert.deepEqual(orders("a-b aa"), ["a-b aa", "aa a-b"], "hyphens weigh nothing");
    assert.equal(
      new Set(orders("a_0 a01 a1 a-2 a_3 b_0 b0")).size,
      orders("a_0 a01 a1 a-2 a_3 b_0 b0").length,
    );
  });

  it("combines the readings without repeating one", () => {
    const headers = ["x-ms-meta-a1", "", "x-ms-meta-a_1", "", "Content-Encoding", "gzip"];
    const all = readings("/", "a=+&b=", headers);
    assert.equal(all.length, 16);
    assert.equal(new Set(all).size, 16);
  });

  for (const name of ["x-ms-date", "X-MS-Meta-A", "content-type", "Range", "Content-Length"]) {
    it(`is refused when ${name} was sent twice`, () => {
      const twice = request("GET", "/", "", [name, "", name.toUpperCase(), "1"]);
      for (const strings of [sharedKeyStrings(twice, "a"), sharedKeyLiteStrings(twice, "a")]) {
        assert.throws(
          () => strings.next(),
          (error) =>
            error instanceof ServiceError &&
            error.code === "InvalidHeaderValue" &&
            error.details[0]?.[1] === name.toLowerCase(),
        );
      }
    });
  }

  it("is refused for a malformed escape", () => {
    assert.throws(() => readings("/", "a=%E0%A4", []), { code: "RequestUrlFailedToParse" });
  });
});

describe("The string that a queue or blob request signs under the Lite scheme", () => {
  it("contains two headers, the date, the extension headers and, of the query, only comp", () => {
    const headers = [
      "Content-MD5",
      "md5",
      "Content-Type",
      "t",
      "Content-Length",
      "5",
      "Date",
      "now",
      "x-ms-meta-a",
      "1",
    ];
    assert.deepEqual(
      [...sharedKeyLiteStrings(request("PUT", "/q", "timeout=1&comp=acl", headers), "acct")],
      ["PUT\nmd5\nt\nnow\nx-ms-meta-a:1\n/acct/q?comp=acl"],
    );
  });

  it("sorts metadata in the same ways", () => {
    const headers = ["x-ms-meta-a1", "", "x-ms-meta-a_1", ""];
    assert.equal([...sharedKeyLiteStrings(request("GET", "/", "", headers), "a")].length, 2);
  });
});

function readings(path: string, query: string, headers: string[]): string[] {
  return [...sharedKeyStrings(request("GET", path, query, headers), "acct")];
}

function request(
  verb: string,
  rawPath: string,
  raw: string,
  rawHeaders: string[] = [],
): SignableRequest {
  const parameters = new URLSearchParams(raw);
  const headers = new Map<string, string>();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    headers.set(rawHeaders[index]!.toLowerCase(), rawHeaders[index + 1]!);
  }
  return {
    verb,
    rawPath,
    query: { raw, get: (name) => parameters.get(name) ?? undefined },
    rawHeaders,
    header: (name) => headers.get(name),
  };
}
