import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { systemClock } from "@rowhouse/server/clock";
import { workInBulk } from "@rowhouse/server/explorer/bulk";
import { accountSas } from "../wire/storage-sas.ts";
import {
  type ExplorerServer,
  NAME,
  OWNER,
  startExplorer,
  startWithFilms,
} from "./explorer-server.ts";

let server: ExplorerServer;
let token: string;
before(async () => {
  ({ server, token } = await startWithFilms([{ PartitionKey: "1984", RowKey: "Dune" }]));
});
after(() => server.close());

describe("A change in bulk", () => {
  const BULK = "/_rowhouse/api/v1/bulk";
  const bulk = async (body: object | string, as = token) =>
    server.ask("POST", BULK, { body, headers: { Authorization: `Bearer ${as}` } });
  /** Slice after slice, to the end. */
  const whole = async (body: object) => {
    const sum = { matched: 0, changed: 0, leftAlone: 0 };
    let next: unknown = {};
    do {
      const answer = await bulk({ ...body, next });
      assert.equal(answer.status, 200, answer.text);
      const part = answer.json() as typeof sum & { next?: unknown; failure?: unknown };
      assert.equal(part.failure, undefined);
      for (const name of ["matched", "changed", "leftAlone"] as const) sum[name] += part[name];
      next = part.next;
    } while (next !== undefined);
    return sum;
  };
  const count = async (filter: string) => {
    const answer = await server.wire(
      token,
      "GET",
      `${NAME}/Bulk()?$filter=${encodeURIComponent(filter)}`,
    );
    return (answer.json() as { value: unknown[] }).value.length;
  };

  before(async () => {
    await server.wire(token, "POST", `${NAME}/Tables`, { body: { TableName: "Bulk" } });
    for (const PartitionKey of ["a'1", "ä 2"])
      for (let i = 0; i < 130; i++) {
        const body = { PartitionKey, RowKey: `r'${i} ü`, n: i };
        await server.wire(token, "POST", `${NAME}/Bulk`, { body });
      }
  });

  it("only counts what it would do when it is tried out", async () => {
    const tried = (
      await bulk({ table: "Bulk", filter: "n lt 120", isDryRun: true })
    ).json() as Record<string, unknown>;
    assert.deepEqual([tried.matched, tried.changed, tried.read], [240, 0, 260]);
    assert.deepEqual((tried.examples as unknown[])[0], ["a'1", "r'0 ü"]);
    assert.equal(await count("n lt 120"), 240);
  });

  it("gives a property to all that a filter finds, in transactions of up to 100, and keeps the rest", async () => {
    const merge = '{"mark@odata.type":"Edm.Int64","mark":"9007199254740993"}';
    assert.deepEqual(await whole({ table: "Bulk", filter: "n lt 120", merge, isDryRun: false }), {
      ...{ matched: 240, changed: 240, leftAlone: 0 },
    });
    assert.equal(await count("mark eq 9007199254740993L and n ge 0"), 240);
  });

  it("deletes all that a filter finds, and everything without one", async () => {
    const wanted = { table: "Bulk", isDryRun: false };
    const some = await whole({ ...wanted, filter: "n ge 120" });
    assert.deepEqual([some.changed, await count("n ge 0")], [20, 240]);
    assert.equal((await whole({ ...wanted, filter: "" })).changed, 240);
    assert.equal(await count(""), 0);
  });

  it("leaves alone what somebody else changed in the meantime", async () => {
    const rows = [1, 2, 3].map((n) => ({ partitionKey: "p", rowKey: String(n), etag: `W/"${n}"` }));
    const left = new Set(["1", "3"]);
    const asked: string[] = [];
    const progress = await workInBulk(
      { table: "Bulk", filter: "", merge: undefined, isDryRun: false, next: {} },
      {
        base: "http://h/a",
        clock: systemClock,
        async ask({ verb, body = "" }) {
          const answer = { status: verb === "GET" ? 200 : 202, headers: [] };
          if (verb === "GET") {
            const value = rows.map(({ partitionKey, rowKey, etag }) => ({
              ...{ PartitionKey: partitionKey, RowKey: rowKey, "odata.etag": etag },
            }));
            return { answer, text: JSON.stringify({ value }) };
          }
          const named = [...body.matchAll(/RowKey='(\d)'/g)].map(([, key]) => key!);
          asked.push(named.join(""));
          const wrong = named.findIndex((key) => !left.has(key));
          const message = { lang: "en-US", value: `${wrong}:It was changed.` };
          const error = { code: "UpdateConditionNotSatisfied", message };
          return {
            answer,
            text:
              wrong < 0
                ? "--changesetresponse_1\r\nHTTP/1.1 204 No Content\r\n"
                : `--changesetresponse_1\r\nHTTP/1.1 412 No\r\n\r\n${JSON.stringify({ "odata.error": error })}`,
          };
        },
      },
    );
    assert.deepEqual(asked, ["123", "13"]);
    assert.deepEqual([progress.matched, progress.changed, progress.leftAlone], [3, 2, 1]);
  });

  it("says what refused it, and how far it came", async () => {
    const missing = (await bulk({ table: "Nothing", filter: "", isDryRun: false })).json() as {
      failure: { status: number; code: string };
    };
    assert.deepEqual([missing.failure.status, missing.failure.code], [404, "TableNotFound"]);
    const wrong = (await bulk({ table: "Films", filter: "n eq", isDryRun: true })).json() as {
      failure: { code: string };
    };
    assert.equal(wrong.failure.code, "InvalidInput");
    const sas = `${server.url}/${NAME}?${accountSas({ ss: "t", sp: "r" })}`;
    const reader = await server.logIn({ sas });
    const refused = (
      await bulk({ table: "Films", filter: "", isDryRun: false }, reader.token)
    ).json() as { changed: number; failure: { status: number } };
    assert.deepEqual([refused.changed, refused.failure.status], [0, 403]);
  });

  it("is refused without a session, as nonsense, and where the explorer is read-only, but for a count", async () => {
    assert.equal((await bulk({ table: "Films", filter: "", isDryRun: false }, "")).status, 401);
    for (const body of [
      "{",
      "null",
      { table: "a/b", filter: "", isDryRun: true },
      { table: "Films", filter: 1, isDryRun: true },
      { table: "Films", filter: "" },
      { table: "Films", filter: "", isDryRun: true, merge: 1 },
      { table: "Films", filter: "", isDryRun: true, next: { $filter: "x" } },
    ])
      assert.equal((await bulk(body)).status, 400, JSON.stringify(body));
    assert.equal((await server.ask("GET", BULK)).status, 405);
    const own = await startExplorer({ isReadOnly: true });
    const session = await own.logIn(OWNER);
    const ask = async (isDryRun: boolean) => {
      const headers = { Authorization: `Bearer ${session.token}` };
      const body = { table: "Films", filter: "", isDryRun };
      return (await own.ask("POST", BULK, { body, headers })).status;
    };
    assert.deepEqual([await ask(false), await ask(true)], [403, 200]);
    await own.close();
  });
});
