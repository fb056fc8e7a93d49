import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { Query } from "../wire/query.ts";
import { type LoggedRequest, printLogLine } from "./log-line.ts";
import { LOGGED_RECORD as RECORD } from "./test-record.ts";

const AT = Date.UTC(2026, 10, 20, 14, 5, 30, 7);
const FIELDS = 30;

describe("A line of the analytics log", () => {
  it("contains the thirty fields of version 1.0 in order", () => {
    const line = print({
      query: "timeout=30&x=1",
      headers: {
        "content-length": "20",
        "user-agent": "curl/8; (x)",
        "if-match": '"0x1"',
        "if-none-match": "*",
        "content-md5": "cmVx",
        referer: "http://a.example/",
      },
      answered: ["ETag", '"0x8D"', "Last-Modified", "Fri, 20 Nov 2026 14:05:30 GMT"],
    });
    assert.equal(
      line,
      "1.0;2026-11-20T14:05:30.0070000Z;GetBlob;Success;200;3;3;authenticated;sally;sally;blob;" +
        '"http://127.0.0.1:10000/sally/docs/a.txt?timeout=30&amp;x=1";"/sally/docs/a.txt";request-1;0;' +
        '10.0.0.1;2026-04-06;127;20;60;300;20;"cmVx";;"&quot;0x8D&quot;";' +
        'Friday, 20-Nov-26 14:05:30 GMT;"If-Match=&quot;0x1&quot;;If-None-Match=*";"curl/8; (x)";' +
        '"http://a.example/";"mine"',
    );
  });

  it("names the account in the object key if the host names the account", () => {
    const line = print({ baseUrl: "http://sally.blob.example", rawPath: "/docs/a.txt" });
    assert.equal(fieldsOf(line)[11], '"http://sally.blob.example/docs/a.txt"');
    assert.equal(fieldsOf(line)[12], '"/sally/docs/a.txt"');
  });

  it("distinguishes kinds of callers and results of requests", () => {
    const statuses = (
      [
        [{}, "Success", "authenticated", "sally"],
        [{ caller: "service-sas" }, "SASSuccess", "SAS", ""],
        [{ caller: "anonymous" }, "AnonymousSuccess", "anonymous", ""],
        [{ caller: "anonymous", status: 403 }, "AuthorizationError", "anonymous", ""],
        [{ status: 404 }, "ClientOtherError", "authenticated", "sally"],
      ] as const
    ).map(([record, ...expected]) => ({ fields: fieldsOf(print({ record })), expected }));
    for (const { fields, expected } of statuses) {
      assert.deepEqual([fields[3], fields[7], fields[8]], expected);
    }
  });

  it("never contains a signature, however its parameter is spelled, in the URL or the referer", () => {
    for (const name of ["sig", "SIG", "%73ig", "s%69%67"]) {
      const referer = `http://a.example/docs?sv=1&${name}=SECRET`;
      const line = print({ query: `sv=1&${name}=SECRET&sp=r`, headers: { referer } });
      assert.doesNotMatch(line, /SECRET/);
      assert.equal(line.split(`sv=1&amp;${name}=XXXXX`).length, 3);
    }
  });

  it("has thirty fields on one line for any text that a client sends", () => {
    const seed = Number(process.env.SEED ?? Date.now() % 1e9);
    const text = fc.string({
      unit: fc.constantFrom("a", '"', ";", "\n", "\r", "&", "é", "\u2028"),
    });
    fc.assert(
      fc.property(text, text, text, (query, agent, length) => {
        const headers = { "user-agent": agent, "content-length": length, referer: agent };
        const line = print({ query, headers, record: { clientRequestId: agent } });
        assert.doesNotMatch(line, /[\n\r\u2028]/, `seed ${seed}`);
        assert.equal(fieldsOf(line).length, FIELDS, `seed ${seed}`);
      }),
      { seed },
    );
  });
});

/** Splits at semicolons outside quotation marks. */
function fieldsOf(line: string): string[] {
  const fields = line.match(/(?<=^|;)(?:"[^"]*"|[^";]*)(?=;|$)/g) ?? [];
  assert.equal(fields.join(";"), line);
  return [...fields];
}

interface Printed {
  readonly baseUrl?: string;
  readonly rawPath?: string;
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly answered?: readonly string[];
  readonly record?: Partial<typeof RECORD>;
}

function print({ query = "", headers = {}, answered = [], record, ...place }: Printed): string {
  const request: LoggedRequest = {
    account: { name: "sally", keys: [] },
    arrivedAt: AT,
    baseUrl: "http://127.0.0.1:10000/sally",
    rawPath: "/sally/docs/a.txt",
    ...place,
    query: new Query(query),
    header: (name) => headers[name],
    rawHeaders: Object.entries(headers).flat(),
    version: "2026-04-06",
  };
  return printLogLine({ ...RECORD, ...record }, request, { headers: answered });
}
