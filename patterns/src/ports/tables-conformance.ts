import assert from "node:assert/strict";
import { describe, it as test } from "node:test";
import { type Properties, text } from "./edm.ts";
import { compare } from "./filter.ts";
import { PortError } from "./port-error.ts";
import type { Continuation, Mutation, StoredEntity, TableQuery, TablesPort } from "./tables.ts";

export interface PortUnderTest {
  readonly name: string;
  /** A port of an endpoint where the tables named by `table` may be created. */
  open(): Promise<TablesPort> | TablesPort;
  /** Declares a promise as a test. Default: the runner's `it`. */
  readonly it?: (name: string, work: () => Promise<void>) => void;
}

/** What every tables port promises, whatever its endpoint. */
export function testTablesPort({ name, open, it = test }: PortUnderTest): void {
  describe(`${name} keeps the tables port's contract`, () => {
    it("returns every property with its type and value", async () => {
      const { port, table } = await opened();
      const properties: Properties = {
        text: text("it's / ü 😀"),
        empty: text(""),
        small: { type: "Int32", value: -5 },
        big: { type: "Int64", value: "9223372036854775807" },
        half: { type: "Double", value: 1.5 },
        infinite: { type: "Double", value: "Infinity" },
        yes: { type: "Boolean", value: true },
        no: { type: "Boolean", value: false },
        at: { type: "DateTime", value: "2014-07-31T18:00:00.1234567Z" },
        id: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
        bytes: { type: "Binary", value: "AAEC/w==" },
      };
      const [etag] = await port.commit(table, [{ kind: "insert", ...key("r"), properties }]);
      const stored = await port.get(table, key("r"));
      assert.deepEqual(stored?.properties, properties);
      assert.equal(stored?.etag, etag);
      assert.ok(Date.parse(stored?.timestamp ?? "") > 0);
      assert.ok(stored?.servedAtMs);
    });

    it("stores keys with quotes, percent signs and other scripts", async () => {
      const { port, table } = await opened();
      for (const rowKey of ["it's", 'A"20B', "100%25", "Zoë 😀", "a+b&c=d", "[~~e$~~f"]) {
        await port.commit(table, [put("insert", rowKey), put("insert", `${rowKey}x`)]);
        const stored = await port.get(table, key(rowKey));
        assert.equal(stored?.rowKey, rowKey);
        await port.commit(table, [{ kind: "delete", ...key(rowKey), ifMatch: stored!.etag }]);
        assert.equal(await port.get(table, key(rowKey)), undefined);
      }
    });

    it("projects, and always returns keys and ETag", async () => {
      const { port, table } = await opened();
      const [etag] = await port.commit(table, [put("insert", "r", { a: text("1"), b: text("2") })]);
      const select = ["b", "absent"];
      const point = await port.get(table, key("r"), { select });
      const [row] = await everything(port, table, { select });
      for (const stored of [point, row]) {
        assert.deepEqual(stored?.properties, { b: text("2") });
        assert.deepEqual([stored?.partitionKey, stored?.rowKey, stored?.etag], ["p", "r", etag]);
      }
    });

    it("refuses mutations that the existing entity or its ETag does not allow", async () => {
      const { port, table } = await opened();
      const [etag = ""] = await port.commit(table, [put("insert", "r")]);
      await port.commit(table, [put("merge", "r", { x: text("2") }, etag)]);
      const refused = (status: number, code: string, mutation: Mutation) =>
        assert.rejects(port.commit(table, [mutation]), failure(status, code));
      await refused(409, "EntityAlreadyExists", put("insert", "r"));
      await refused(412, "UpdateConditionNotSatisfied", put("merge", "r", {}, etag));
      await refused(412, "UpdateConditionNotSatisfied", put("replace", "r", {}, etag));
      await refused(412, "UpdateConditionNotSatisfied", {
        kind: "delete",
        ...key("r"),
        ifMatch: etag,
      });
      await refused(404, "ResourceNotFound", put("merge", "s", {}, "*"));
      await refused(404, "ResourceNotFound", { kind: "delete", ...key("s"), ifMatch: "*" });
    });

    it("merges, replaces and upserts", async () => {
      const { port, table } = await opened();
      const after = async (mutation: Mutation) => {
        await port.commit(table, [mutation]);
        return Object.keys((await port.get(table, key("r")))?.properties ?? {}).sort();
      };
      assert.deepEqual(await after(put("insertOrMerge", "r", { a: text("1") })), ["a"]);
      assert.deepEqual(await after(put("insertOrMerge", "r", { b: text("1") })), ["a", "b"]);
      assert.deepEqual(await after(put("merge", "r", { c: text("1") }, "*")), ["a", "b", "c"]);
      assert.deepEqual(await after(put("insertOrReplace", "r", { d: text("1") })), ["d"]);
      assert.deepEqual(await after(put("replace", "r", { e: text("1") }, "*")), ["e"]);
    });

    it("applies a transaction completely or not at all, and names the mutation that fails", async () => {
      const { port, table } = await opened();
      const [etag = ""] = await port.commit(table, [put("insert", "old")]);
      const conditional: Mutation = { kind: "delete", ...key("old"), ifMatch: etag };
      await assert.rejects(
        port.commit(table, [put("insert", "a"), conditional, put("merge", "none", {}, "*")]),
        failure(404, "ResourceNotFound", 2),
      );
      assert.deepEqual(await rowKeys(port, table), ["old"]);
      const etags = await port.commit(table, [
        put("insert", "a"),
        conditional,
        put("insertOrMerge", "b"),
      ]);
      assert.deepEqual(await rowKeys(port, table), ["a", "b"]);
      assert.equal(etags[0], (await port.get(table, key("a")))?.etag);
      assert.equal(etags[1], undefined);
      assert.equal(etags[2], (await port.get(table, key("b")))?.etag);
    });

    it("checks the ETag of a delete in a transaction", async () => {
      const { port, table } = await opened();
      const [etag = ""] = await port.commit(table, [put("insert", "r")]);
      await port.commit(table, [put("merge", "r", { x: text("new") }, "*")]);
      await assert.rejects(
        port.commit(table, [put("insert", "a"), { kind: "delete", ...key("r"), ifMatch: etag }]),
        failure(412, "UpdateConditionNotSatisfied", 1),
      );
      assert.deepEqual(await rowKeys(port, table), ["r"]);
    });

    it("refuses a transaction over two partitions, with a row twice, or of 101 mutations", async () => {
      const { port, table } = await opened();
      const elsewhere: Mutation = {
        kind: "insert",
        partitionKey: "q",
        rowKey: "b",
        properties: {},
      };
      const many = Array.from({ length: 101 }, (_, i) => put("insert", `r${i}`));
      for (const mutations of [
        [put("insert", "a"), elsewhere],
        [put("insert", "a"), put("merge", "a", {}, "*")],
        many,
      ]) {
        await assert.rejects(port.commit(table, mutations), failure(400));
      }
      assert.deepEqual(await rowKeys(port, table), []);
      await port.commit(table, many.slice(0, 100));
      assert.equal((await rowKeys(port, table)).length, 100);
    });

    it("returns queries in key order, page by page", async () => {
      const { port, table } = await opened();
      const names = Array.from({ length: 25 }, (_, i) => `r${String(i).padStart(2, "0")}`);
      await port.commit(
        table,
        names.map((rowKey) => put("insert", rowKey)),
      );
      const found = await everything(port, table, { top: 10 });
      assert.deepEqual(
        found.map(({ rowKey }) => rowKey),
        names,
      );
    });

    it("filters by keys and by properties of every type", async () => {
      const { port, table } = await opened();
      const properties: Properties = {
        text: text("it's"),
        small: { type: "Int32", value: 5 },
        big: { type: "Int64", value: "5000000000" },
        half: { type: "Double", value: 2 },
        yes: { type: "Boolean", value: true },
        at: { type: "DateTime", value: "2014-07-31T18:00:00.000Z" },
        id: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
        bytes: { type: "Binary", value: "AAEC/w==" },
      };
      await port.commit(table, [put("insert", "r", properties), put("insert", "s")]);
      for (const [property, value] of Object.entries(properties)) {
        const entities = await everything(port, table, { filter: compare(property, "eq", value) });
        assert.deepEqual(
          entities.map(({ rowKey }) => rowKey),
          ["r"],
          property,
        );
      }
      const above = await everything(port, table, { filter: compare("RowKey", "gt", text("r")) });
      assert.deepEqual(
        above.map(({ rowKey }) => rowKey),
        ["s"],
      );
      const none = await everything(port, table, { filter: compare("absent", "ne", text("r")) });
      assert.deepEqual(none, []);
    });

    it("filters by doubles of every size", async () => {
      const { port, table } = await opened();
      for (const value of ["-Infinity", -2e25, -1.5, 5e-324, 3, 1e308, "Infinity"]) {
        const double = { type: "Double", value } as const;
        const own = put("insert", String(value).replace("+", ""), { double });
        await port.commit(table, [own]);
        const filter = compare("double", "ge", double);
        const [found, ...others] = await everything(port, table, { filter });
        assert.deepEqual([found?.rowKey, others], [own.rowKey, []], String(value));
      }
    });

    it("distinguishes an absent entity from an absent table", async () => {
      const { port, table } = await opened();
      assert.equal(await port.get(table, key("none")), undefined);
      await assert.rejects(
        Promise.resolve(port.get("Nowhere", key("r"))),
        failure(404, "TableNotFound"),
      );
      await assert.rejects(
        Promise.resolve(port.query("Nowhere", {})),
        failure(404, "TableNotFound"),
      );
      await assert.rejects(
        port.commit("Nowhere", [put("insert", "r")]),
        failure(404, "TableNotFound"),
      );
    });

    it("creates, lists and deletes tables", async () => {
      const { port, table } = await opened();
      assert.equal(await port.createTable(table), false);
      assert.deepEqual((await port.listTables({ from: table, to: `${table}0` })).names, [table]);
      assert.deepEqual((await port.listTables({ from: "Zzz" })).names, []);
      assert.equal(await port.deleteTable(table), true);
      assert.equal(await port.deleteTable("Nowhere"), false);
    });

    async function opened(): Promise<{ port: TablesPort; table: string }> {
      const port = await open();
      const table = `Conformance${Math.random().toString(36).slice(2)}`;
      assert.equal(await port.createTable(table), true);
      return { port, table };
    }
  });
}

function key(rowKey: string) {
  return { partitionKey: "p", rowKey };
}

function put(
  kind: Exclude<Mutation["kind"], "delete">,
  rowKey: string,
  properties: Properties = {},
  ifMatch = "*",
): Mutation {
  return kind === "merge" || kind === "replace"
    ? { kind, ...key(rowKey), properties, ifMatch }
    : { kind, ...key(rowKey), properties };
}

async function rowKeys(port: TablesPort, table: string): Promise<string[]> {
  return (await everything(port, table, {})).map(({ rowKey }) => rowKey);
}

/** All pages, since any of them may be short or empty. */
async function everything(
  port: TablesPort,
  table: string,
  query: TableQuery,
): Promise<StoredEntity[]> {
  const found: StoredEntity[] = [];
  let continuation: Continuation | undefined;
  do {
    const page = await port.query(table, { ...query, ...(continuation && { continuation }) });
    assert.ok(page.entities.length <= (query.top ?? 1000));
    found.push(...page.entities);
    continuation = page.continuation;
  } while (continuation);
  return found;
}

function failure(status: number, code?: string, index?: number): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof PortError, String(error));
    assert.equal(error.status, status, error.message);
    if (code !== undefined) assert.equal(error.code, code);
    if (index !== undefined) assert.equal(error.index, index);
    return true;
  };
}
