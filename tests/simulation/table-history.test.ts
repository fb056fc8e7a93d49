import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import { createTestDatabase } from "../support/database-engine.ts";
import { withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { seed, times } from "./settings.ts";
import { changesetOf, partsOf } from "./table-changeset.ts";
import { type Answer, entityPath, requestOf, TableClient, type Write } from "./table-client.ts";
import { randomFilter } from "./table-filters.ts";
import { type ModelEntity, TableModel } from "./table-model.ts";

describe(`A random history of a table (seed ${seed}, SIMULATION_SEED repeats it)`, () => {
  it("agrees with a plain Map, in memory", async () => {
    const client = await TableClient.open(new MemoryEngine());
    await new History(client, seed).run(3_000 * times);
    await client.close();
  });

  it("agrees with a plain Map, on LMDB, across restarts", async () => {
    await withFolder(async (path) => {
      await runAcrossRestarts(() => openLmdbEngine({ path }), seed + 1, 600 * times);
    });
  });

  it("agrees with a plain Map, on PostgreSQL, across restarts", async () => {
    const database = await createTestDatabase();
    await runAcrossRestarts(() => database.open(), seed + 2, 300 * times);
    await database.drop();
  });
});

async function runAcrossRestarts(
  openEngine: () => Promise<Engine>,
  seed: number,
  steps: number,
): Promise<void> {
  const open = async () => TableClient.open(await openEngine());
  const history = new History(await open(), seed);
  for (let part = 0; part < 4; part++) {
    await history.run(steps / 4);
    await history.client.close();
    history.client = await open();
    await history.compareAll();
  }
  await history.client.close();
}

const TABLE = "History";
const PARTITIONS = ["", "A", "a", "é", "𝒳", "\uffee", "O'Brien", "a".repeat(500)];
const ROWS = ["", "0", "1", "10", "B", "b", "%20", "\u00ff+", "日本", "x".repeat(512)];

/** Sends each request to the service and to the model, and compares every answer. */
class History {
  client: TableClient;
  readonly #random: () => number;
  readonly #model = new TableModel();
  /** Stale ETags. */
  readonly #etags: string[] = [`W/"datetime'2012-06-15T22%3A51%3A44.9662825Z'"`];
  /** The time in the newest ETag that each entity ever had. */
  readonly #newest = new Map<string, string>();
  #exists = false;

  constructor(client: TableClient, seed: number) {
    this.client = client;
    this.#random = seededRandom(seed);
  }

  async run(steps: number): Promise<void> {
    for (let step = 0; step < steps; step++) {
      const [name, action] = this.#choose();
      try {
        await action();
      } catch (error) {
        throw new Error(`Step ${step}, ${name}: ${error}`, { cause: error });
      }
    }
  }

  below(n: number): number {
    return Math.floor(this.#random() * n);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }

  /** The service holds exactly the model's entities, in the same order. */
  async compareAll(): Promise<void> {
    if (!this.#exists) return;
    const found = await this.#everyPage("", undefined);
    assert.deepEqual(found.map(withoutTimestamp), this.#model.list().map(shown));
  }

  #choose(): [string, () => Promise<void>] {
    const actions: [number, string, () => Promise<void>][] = [
      [40, "write", () => this.#write()],
      [15, "transaction", () => this.#transact()],
      [15, "get", () => this.#get()],
      [25, "query", () => this.#query()],
      [3, "list all", () => this.compareAll()],
      [1, "create or delete the table", () => this.#changeTable()],
    ];
    let at = this.below(actions.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, name, action] of actions) {
      if (at < weight) return [name, action];
      at -= weight;
    }
    throw new Error("The weights do not add up.");
  }

  #draw(partitionKey = this.pick(PARTITIONS)): Write {
    const keys = { partitionKey, rowKey: this.pick(ROWS) };
    const kind = this.pick(["insert", "replace", "merge", "delete"] as const);
    const right = this.#model.get(keys)?.etag;
    const ifMatch =
      kind === "insert"
        ? undefined
        : this.pick([
            right ?? "*",
            right ?? "*",
            "*",
            this.pick(this.#etags),
            kind === "delete" ? "*" : undefined,
          ]);
    const properties: Record<string, number | string> = {};
    if (this.below(3) > 0) properties.n = this.below(10);
    if (this.below(3) > 0) properties.s = this.pick(["", "a", "b", "é"]);
    if (this.below(9) === 0) properties.long = "x".repeat(this.below(5_000));
    return { ...keys, kind, ifMatch, properties };
  }

  async #write(): Promise<void> {
    const write = this.#draw();
    const { method, path, headers, body } = requestOf(TABLE, write);
    const answer = await this.client.send(method, path, { headers, ...(body && { body }) });
    const verdict = this.#exists ? this.#model.judge(write) : "TableNotFound";
    assert.equal(answer.code ?? "done", verdict, `${JSON.stringify(write)} ${answer.body}`);
    if (verdict === "done") this.#note(write, answer.header("etag"));
  }

  /** A change set, possibly with an impossible operation: then none is executed. */
  async #transact(): Promise<void> {
    const partitionKey = this.pick(PARTITIONS);
    const writes = Array.from({ length: 1 + this.below(5) }, () => this.#draw(partitionKey));
    const answer = await this.client.send("POST", "/$batch", changesetOf(TABLE, writes));
    assert.equal(answer.status, 202, answer.body);
    const parts = partsOf(answer);
    const refused = parts.find(({ code }) => code !== undefined);
    const expected = this.#judgeAll(writes);
    assert.equal(refused?.code, expected?.code, `${JSON.stringify(writes)} ${answer.body}`);
    if (expected) {
      assert.equal(parts.length, 1);
      if (writes.length > 1) assert.match(refused!.message, new RegExp(`^${expected.index}:`));
      return;
    }
    assert.equal(parts.length, writes.length);
    for (const [i, write] of writes.entries()) this.#note(write, parts[i]!.etag);
  }

  /** The first impossible operation of a change set: its error and its index. */
  #judgeAll(writes: readonly Write[]): { code: string; index: number } | undefined {
    const rows = new Set<string>();
    for (const [index, { rowKey }] of writes.entries()) {
      if (rows.has(rowKey)) return { code: "InvalidDuplicateRow", index };
      rows.add(rowKey);
    }
    if (!this.#exists) return { code: "TableNotFound", index: 0 };
    for (const [index, write] of writes.entries()) {
      const code = this.#model.judge(write);
      if (code !== "done") return { code, index };
    }
    return undefined;
  }

  #note(write: Write, etag: string | undefined): void {
    if (write.kind !== "delete") {
      assert.notEqual(etag, undefined);
      // Later than every other that this entity ever had, even if it was deleted and inserted again.
      const name = JSON.stringify([write.partitionKey, write.rowKey]);
      const last = this.#newest.get(name) ?? "";
      assert.equal(instant(etag!) > last, true, `${etag} after ${last}`);
      this.#newest.set(name, instant(etag!));
      if (this.#etags.length > 50) this.#etags.shift();
      this.#etags.push(etag!);
    }
    this.#model.apply(write, etag ?? "");
  }

  async #get(): Promise<void> {
    const keys = { partitionKey: this.pick(PARTITIONS), rowKey: this.pick(ROWS) };
    const answer = await this.client.send("GET", entityPath(TABLE, keys));
    const expected = this.#model.get(keys);
    if (!this.#exists) return assert.equal(answer.code, "TableNotFound");
    if (!expected) return assert.equal(answer.code, "ResourceNotFound");
    assert.equal(answer.header("etag"), expected.etag);
    assert.deepEqual(withoutTimestamp(JSON.parse(answer.body)), shown(expected));
  }

  async #query(): Promise<void> {
    const filter = randomFilter(this, { partitions: PARTITIONS, rows: ROWS });
    const top = this.below(3) === 0 ? undefined : 1 + this.below(7);
    if (!this.#exists) {
      const answer = await this.client.send("GET", `/${TABLE}`);
      return assert.equal(answer.code, "TableNotFound");
    }
    const found = await this.#everyPage(filter.text, top);
    const expected = this.#model.list().filter(filter.passes).map(shown);
    assert.deepEqual(found.map(withoutTimestamp), expected, `${filter.text} by ${top}`);
  }

  async #everyPage(filter: string, top: number | undefined): Promise<Record<string, unknown>[]> {
    const all: Record<string, unknown>[] = [];
    for (let next = ""; ; ) {
      const options = `$filter=${encodeURIComponent(filter)}${top ? `&$top=${top}` : ""}`;
      const answer = await this.client.send("GET", `/${TABLE}()?${options}${next}`);
      assert.equal(answer.status, 200, `${filter} ${answer.body}`);
      const { value } = JSON.parse(answer.body) as { value: Record<string, unknown>[] };
      assert.equal(value.length <= (top ?? 1000), true);
      all.push(...value);
      next = continuationOf(answer);
      if (next === "") return all;
    }
  }

  async #changeTable(): Promise<void> {
    if (this.#exists) {
      assert.equal((await this.client.send("DELETE", `/Tables('${TABLE}')`)).status, 204);
      this.#model.clear();
    } else {
      const body = { TableName: TABLE };
      assert.equal((await this.client.send("POST", "/Tables", { body })).status, 201);
      assert.equal(
        (await this.client.send("POST", "/Tables", { body })).code,
        "TableAlreadyExists",
      );
    }
    this.#exists = !this.#exists;
    const list = await this.client.send("GET", "/Tables");
    assert.equal(list.body.includes(TABLE), this.#exists);
  }
}

/** The query parameters that continue after an answer; "" if it was the last. */
function continuationOf(answer: Answer): string {
  const partition = answer.header("x-ms-continuation-nextpartitionkey");
  const row = answer.header("x-ms-continuation-nextrowkey");
  if (partition === undefined) return "";
  return `&NextPartitionKey=${partition}${row ? `&NextRowKey=${row}` : ""}`;
}

function shown({ partitionKey, rowKey, properties }: ModelEntity): Record<string, unknown> {
  return { PartitionKey: partitionKey, RowKey: rowKey, ...properties };
}

function withoutTimestamp(entity: Record<string, unknown>): Record<string, unknown> {
  const { Timestamp: _, ...rest } = entity;
  return rest;
}

/** The time in an ETag, in a form that sorts. */
function instant(etag: string): string {
  const [, seconds = "", fraction = ""] = /datetime'([^.Z]+)\.?(\d*)Z'/.exec(etag) ?? [];
  return seconds + fraction.padEnd(7, "0");
}
