import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import { databaseOfFolder, dropDatabaseOfFolder } from "../support/database-engine.ts";
import { withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { seed, times } from "./settings.ts";
import { changesetOf, partsOf } from "./table-changeset.ts";
import { type Answer, entityPath, requestOf, TableClient, type Write } from "./table-client.ts";
import { compare } from "./table-model.ts";
import { unsteady } from "./unsteady-engine.ts";

const TABLE = "Contested";

describe(`Many clients of one table (seed ${seed}, SIMULATION_SEED repeats it)`, () => {
  for (const [where, rounds, open] of [
    ["in memory", 60 * times, async () => twice(new MemoryEngine())],
    ["on LMDB", 15 * times, async (path: string) => twice(await openLmdbEngine({ path }))],
    ["on PostgreSQL", 10 * times, openTwoFronts],
  ] as const) {
    /** Two servers over one engine that answers with delays and refuses some commits. */
    const simulate = (work: (crowd: Crowd) => Promise<void>) => () =>
      withFolder(async (path) => {
        const random = seededRandom(seed);
        const engines = await open(path);
        const clients: TableClient[] = [];
        // A server does not start on an engine that refuses.
        const mood = { refusals: 0 };
        for (const engine of engines)
          clients.push(await TableClient.open(unsteady(engine, random, mood)));
        mood.refusals = 0.02;
        const crowd = new Crowd(clients, random);
        await crowd.send("POST", "/Tables", { body: { TableName: TABLE } });
        await work(crowd);
        for (const client of clients) await client.close();
        await dropDatabaseOfFolder(path);
      });

    it(
      `${where}: exactly one of several updates with the same ETag wins`,
      simulate(async (crowd) => {
        const keys = { partitionKey: "p", rowKey: "r" };
        let etag = (
          await crowd.write({ ...keys, kind: "insert", ifMatch: undefined, properties: { n: 0 } })
        ).header("etag")!;
        for (let n = 1; n <= rounds; n++) {
          const kind = crowd.pick(["replace", "merge"] as const);
          const answers = await Promise.all(
            Array.from({ length: 6 }, (_, by) =>
              crowd.write({ ...keys, kind, ifMatch: etag, properties: { n, by } }),
            ),
          );
          const winners = answers.flatMap((answer, by) => (answer.status === 204 ? [by] : []));
          assert.equal(winners.length, 1, `round ${n}: ${answers.map(({ status }) => status)}`);
          for (const answer of answers)
            if (answer.status !== 204) assert.equal(answer.code, "UpdateConditionNotSatisfied");
          const read = await crowd.send("GET", entityPath(TABLE, keys));
          const { n: stored, by } = JSON.parse(read.body) as { n: number; by: number };
          assert.deepEqual([stored, by], [n, winners[0]]);
          etag = read.header("etag")!;
          assert.equal(etag, answers[winners[0]!]!.header("etag"));
        }
      }),
    );

    it(
      `${where}: exactly one of several inserts of an entity wins, and exactly one of several deletes`,
      simulate(async (crowd) => {
        const keys = { partitionKey: "p", rowKey: "r" };
        for (let n = 1; n <= rounds; n++) {
          for (const [write, won, lost] of [
            [
              { ...keys, kind: "insert", ifMatch: undefined, properties: { n } },
              204,
              "EntityAlreadyExists",
            ],
            [{ ...keys, kind: "delete", ifMatch: "*", properties: {} }, 204, "ResourceNotFound"],
          ] as const) {
            const answers = await Promise.all(Array.from({ length: 5 }, () => crowd.write(write)));
            assert.equal(answers.filter(({ status }) => status === won).length, 1);
            assert.equal(answers.filter(({ code }) => code === lost).length, 4);
          }
        }
      }),
    );

    it(
      `${where}: concurrent increments lose no count, and concurrent merges no property`,
      simulate(async (crowd) => {
        const path = entityPath(TABLE, { partitionKey: "p", rowKey: "counter" });
        await crowd.send("PUT", path, { body: { n: 0 } });
        let counted = 0;
        const count = async () => {
          while (counted < rounds) {
            const read = await crowd.send("GET", path);
            const { n } = JSON.parse(read.body) as { n: number };
            const headers = { "If-Match": read.header("etag")! };
            const { status } = await crowd.send("MERGE", path, { body: { n: n + 1 }, headers });
            if (status === 204) counted++;
          }
        };
        const names = Array.from({ length: 20 }, (_, i) => `by${i}`);
        const mark = async (name: string) => {
          for (let i = 1; i <= 3; i++) {
            const answer = await crowd.send("MERGE", path, { body: { [name]: i } });
            assert.equal(answer.status, 204);
          }
        };
        await Promise.all([...Array.from({ length: 5 }, count), ...names.map(mark)]);
        const found = JSON.parse((await crowd.send("GET", path)).body) as Record<string, unknown>;
        assert.equal(found.n, counted);
        for (const name of names) assert.equal(found[name], 3);
      }),
    );

    it(
      `${where}: readers see a transaction whole or not at all, and never a refused one`,
      simulate(async (crowd) => {
        const rows = ["0", "1", "2", "3"];
        const writes = (value: number, spoilt: boolean): Write[] => [
          ...rows.map((rowKey) => ({
            partitionKey: "p",
            rowKey,
            kind: "replace" as const,
            ifMatch: undefined,
            properties: { value },
          })),
          ...(spoilt
            ? [
                {
                  partitionKey: "p",
                  rowKey: "none",
                  kind: "delete" as const,
                  ifMatch: "*",
                  properties: {},
                },
              ]
            : []),
        ];
        let done = false;
        const refused = new Set<number>();
        const seen = new Set<number>();
        const write = async (writer: number) => {
          for (let i = 0; i < rounds / 3; i++) {
            const value = writer * 100_000 + i;
            const spoilt = crowd.below(4) === 0;
            const parts = partsOf(
              await crowd.send("POST", "/$batch", changesetOf(TABLE, writes(value, spoilt))),
            );
            if (spoilt) refused.add(value);
            assert.equal(parts.length, spoilt ? 1 : rows.length);
            assert.equal(parts[0]!.code, spoilt ? "ResourceNotFound" : undefined);
          }
        };
        const read = async () => {
          while (!done) {
            const list = await crowd.send("GET", `/${TABLE}?$filter=PartitionKey%20eq%20'p'`);
            const { value } = JSON.parse(list.body) as { value: { value: number }[] };
            const values = new Set(value.map((entity) => entity.value));
            assert.equal(values.size <= 1, true, `a page holds ${[...values]}`);
            assert.equal(value.length === 0 || value.length === rows.length, true);
            for (const each of values) seen.add(each);
          }
        };
        const readers = Promise.all([read(), read(), read()]);
        await Promise.all([1, 2, 3, 4].map(write));
        done = true;
        await readers;
        for (const value of seen) assert.equal(refused.has(value), false);
      }),
    );

    it(
      `${where}: paging during writes loses and repeats no lasting entity, and keeps the order`,
      simulate(async (crowd) => {
        const partitions = ["a", "b", "𝒳", "\uffee"];
        const stable: string[] = [];
        for (const partitionKey of partitions) {
          for (let i = 0; i < 12; i++) {
            const rowKey = `k${String(i).padStart(2, "0")}`;
            stable.push(partitionKey + rowKey);
            await crowd.write({
              partitionKey,
              rowKey,
              kind: "insert",
              ifMatch: undefined,
              properties: {},
            });
          }
        }
        stable.sort(compare);
        let done = false;
        const churn = async () => {
          while (!done) {
            const keys = {
              partitionKey: crowd.pick(partitions),
              rowKey: `k${String(crowd.below(12)).padStart(2, "0")}${crowd.pick(["", "a", "b"])}`,
            };
            const isStable = keys.rowKey.length === 3;
            const kind = isStable ? "merge" : crowd.pick(["replace", "delete"] as const);
            await crowd.write({
              ...keys,
              kind,
              ifMatch: kind === "delete" ? "*" : undefined,
              properties: { n: crowd.below(9) },
            });
          }
        };
        const churns = Promise.all([churn(), churn(), churn()]);
        for (let walk = 0; walk < rounds / 5; walk++) {
          const top = 1 + crowd.below(9);
          const seen: string[] = [];
          for (let next = ""; ; ) {
            const page = await crowd.send("GET", `/${TABLE}?$top=${top}${next}`);
            const { value } = JSON.parse(page.body) as {
              value: { PartitionKey: string; RowKey: string }[];
            };
            seen.push(...value.map(({ PartitionKey, RowKey }) => PartitionKey + RowKey));
            const partition = page.header("x-ms-continuation-nextpartitionkey");
            if (partition === undefined) break;
            next = `&NextPartitionKey=${partition}&NextRowKey=${page.header("x-ms-continuation-nextrowkey")}`;
          }
          assert.deepEqual([...seen].sort(compare), seen, "out of order");
          assert.equal(new Set(seen).size, seen.length, "repeated");
          assert.deepEqual(
            seen.filter((key) => stable.includes(key)),
            stable,
            "lost",
          );
        }
        done = true;
        await churns;
      }),
    );

    it(
      `${where}: entities written to a deleted table never appear in the table that replaces it`,
      simulate(async (crowd) => {
        let life = 0;
        let done = false;
        const keys = { partitionKey: "p", rowKey: "r" };
        const write = async () => {
          while (!done) {
            const { status } = await crowd.write({
              ...keys,
              kind: "replace",
              ifMatch: undefined,
              properties: { life },
            });
            assert.equal(status === 204 || status === 404, true, String(status));
          }
        };
        const writers = Promise.all([write(), write(), write()]);
        for (; life < rounds / 3; life++) {
          assert.equal((await crowd.send("DELETE", `/Tables('${TABLE}')`)).status, 204);
          const list = await crowd.send("GET", `/${TABLE}`);
          assert.equal(list.code, "TableNotFound");
          assert.equal(
            (await crowd.send("POST", "/Tables", { body: { TableName: TABLE } })).status,
            201,
          );
        }
        done = true;
        await writers;
        await crowd.send("DELETE", `/Tables('${TABLE}')`);
        await crowd.send("POST", "/Tables", { body: { TableName: TABLE } });
        const left = await crowd.send("GET", `/${TABLE}`);
        assert.deepEqual(JSON.parse(left.body), { value: [] });
      }),
    );
  }
});

function twice(engine: Engine): readonly Engine[] {
  return [engine, engine];
}

/** One engine for each server, over one database; neither knows of the other. */
async function openTwoFronts(path: string): Promise<readonly Engine[]> {
  const database = await databaseOfFolder(path);
  return [await database.open(), await database.open()];
}

/** Clients of several servers. Each request goes to a random one, and again if the engine refused it. */
class Crowd {
  readonly #clients: readonly TableClient[];
  readonly #random: () => number;

  constructor(clients: readonly TableClient[], random: () => number) {
    this.#clients = clients;
    this.#random = random;
  }

  below(n: number): number {
    return Math.floor(this.#random() * n);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }

  /** A refused commit changed nothing, so the same request may be repeated. */
  async send(...request: Parameters<TableClient["send"]>): Promise<Answer> {
    for (;;) {
      const answer = await this.pick(this.#clients).send(...request);
      const isRefused = answer.code === "ServerBusy" || answer.body.includes('"ServerBusy"');
      if (!isRefused) return answer;
    }
  }

  write(write: Write): Promise<Answer> {
    const { method, path, headers, body } = requestOf(TABLE, write);
    return this.send(method, path, { headers, ...(body && { body }) });
  }
}
