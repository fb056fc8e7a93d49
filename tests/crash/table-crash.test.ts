import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { odata, RestError, TableClient, type TransactionAction } from "@azure/data-tables";
import { LocalServer } from "@rowhouse/server/engine/postgres/test-server";
import { settled } from "../support/database-engine.ts";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { interrupt, type Pace, TWO_WORKERS, type Victim, victimOf } from "./interruption.ts";

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);
const rounds = Number(process.env.CRASH_ROUNDS ?? 3);
const CLIENTS = 8;
const ROWS = 4;

/**
 * What a client knows of its partition: row key → value, as last acknowledged and as a request in flight may
 * have left it.
 */
interface Knowledge {
  acknowledged: Map<string, number>;
  underWay: Map<string, number> | undefined;
}

describe(`A server killed under load (seed ${seed}, CRASH_SEED repeats it)`, () => {
  it(`keeps every acknowledged write and shows no partial transaction, in each of ${rounds} rounds`, async () => {
    await withFolder((folder) =>
      crash(rounds, { start: () => startRowhouse(folder, ["--silent"]) }),
    );
  });

  it("keeps every acknowledged write with two workers, whether one or both are killed", async () => {
    await withFolder((folder) =>
      crash(process.env.CRASH_ROUNDS ? rounds : 2, {
        start: () => startRowhouse(folder, TWO_WORKERS),
        victimOf,
      }),
    );
  });

  it("keeps every acknowledged write over PostgreSQL, which is not killed", async () => {
    const database = await LocalServer.create();
    try {
      await database.start();
      const url = await database.createDatabase();
      const flags = ["--silent", "--engine", url];
      await withFolder((folder) =>
        crash(process.env.CRASH_ROUNDS ? rounds : 1, {
          async start() {
            await settled(url);
            return startRowhouse(folder, flags);
          },
        }),
      );
    } finally {
      await database.remove();
    }
  });
});

interface Place {
  start(): Promise<RowhouseProcess>;
  /** The processes to kill in a round. */
  victimOf?(round: number): Victim;
}

async function crash(rounds: number, place: Place): Promise<void> {
  const random = seededRandom(seed);
  const known: Knowledge[] = Array.from({ length: CLIENTS }, () => ({
    acknowledged: new Map(),
    underWay: undefined,
  }));
  const counter = new SharedCounter();
  let server: RowhouseProcess | undefined;
  try {
    for (let round = 0; round < rounds; round++) {
      server ??= await place.start();
      const table = clientOf(server.connectionString);
      await createUnlessThere(table);
      await verify(table, known, `before round ${round}`);
      await counter.verify(table);
      const victim = place.victimOf?.(round) ?? "everything";
      const answers = 100 + Math.floor(random() * 400);
      await interrupt({ server, victim, answers, random }, (pace) =>
        Promise.all(
          known.map((knowledge, client) =>
            work(table, client, { knowledge, counter, random, pace }),
          ),
        ),
      );
      if (victim !== "worker") server = undefined;
    }
    server ??= await place.start();
    const table = clientOf(server.connectionString);
    await verify(table, known, "at the end");
    await counter.verify(table);
    assert.equal(await server.stop(), 0);
  } finally {
    await server?.kill();
  }
}

function clientOf(connectionString: string): TableClient {
  return TableClient.fromConnectionString(connectionString, "Crash", {
    allowInsecureConnection: true,
    retryOptions: { maxRetries: 0 },
  });
}

interface Work {
  readonly knowledge: Knowledge;
  readonly counter: SharedCounter;
  readonly random: () => number;
  readonly pace: Pace;
}

/** Writes one entity or transaction after the other, until the round or the server ends. */
async function work(table: TableClient, client: number, work: Work): Promise<void> {
  const { knowledge, counter, random, pace } = work;
  for (let value = 1; !pace.isOver; value++) {
    try {
      if (random() < 0.25) await counter.raise(table);
      else await change(table, client, { knowledge, random, value });
      pace.answer();
    } catch (error) {
      if (!isBrokenOff(error)) throw error;
      if (pace.isLast) return;
    }
  }
}

function isBrokenOff(error: unknown): boolean {
  return error instanceof RestError && error.statusCode === undefined;
}

/** Writes to the client's own partition. */
async function change(
  table: TableClient,
  client: number,
  {
    knowledge,
    random,
    value,
  }: { readonly knowledge: Knowledge; readonly random: () => number; readonly value: number },
): Promise<void> {
  const partitionKey = `client ${client}`;
  if (knowledge.underWay) {
    judge(knowledge, await readPartition(table, partitionKey), partitionKey);
  }
  const next = new Map(knowledge.acknowledged);
  const rowKey = String(Math.floor(random() * ROWS));
  const kind = random();
  let write: () => Promise<unknown>;
  if (kind < 0.3) {
    // Either all rows get the value, or none does.
    const actions: TransactionAction[] = [];
    for (let row = 0; row < ROWS; row++) {
      next.set(String(row), value);
      actions.push(["upsert", { partitionKey, rowKey: String(row), value }, "Replace"]);
    }
    write = () => table.submitTransaction(actions);
  } else if (kind < 0.5 && next.has(rowKey)) {
    next.delete(rowKey);
    write = () => table.deleteEntity(partitionKey, rowKey);
  } else {
    next.set(rowKey, value);
    write = () =>
      table.upsertEntity({ partitionKey, rowKey, value }, kind < 0.75 ? "Merge" : "Replace");
  }
  knowledge.underWay = next;
  await write();
  knowledge.acknowledged = next;
  knowledge.underWay = undefined;
}

/** Two rows hold one number, which all clients increment: both rows in one transaction, if neither has changed. */
class SharedCounter {
  /** Numbers whose write was acknowledged to a client. */
  readonly #acknowledged = new Set<number>();
  readonly #brokenOff = new Set<number>();

  async raise(table: TableClient): Promise<void> {
    const rows = await this.#read(table);
    const value = (rows[0]?.value ?? 0) + 1;
    const actions = ["a", "b"].map((rowKey, i): TransactionAction => {
      const entity = { partitionKey: COUNTER, rowKey, value };
      const etag = rows[i]?.etag;
      return etag ? ["update", entity, "Replace", { etag }] : ["create", entity];
    });
    try {
      await table.submitTransaction(actions);
    } catch (error) {
      // Another client was first.
      if (error instanceof RestError && [409, 412].includes(error.statusCode ?? 0)) return;
      if (isBrokenOff(error)) this.#brokenOff.add(value);
      throw error;
    }
    assert.ok(!this.#acknowledged.has(value), `${value} was written twice`);
    this.#acknowledged.add(value);
  }

  async verify(table: TableClient): Promise<void> {
    const value = (await this.#read(table))[0]?.value ?? 0;
    const last = Math.max(0, ...this.#acknowledged);
    assert.ok(value >= last, `${last} was acknowledged, and is lost: ${value}`);
    for (let each = 1; each <= value; each++) {
      assert.ok(
        this.#acknowledged.has(each) || this.#brokenOff.has(each),
        `${each} was never written`,
      );
    }
  }

  async #read(table: TableClient): Promise<{ value: number; etag: string }[]> {
    const rows: { value: number; etag: string }[] = [];
    const queryOptions = { filter: odata`PartitionKey eq ${COUNTER}` };
    for await (const { value, etag } of table.listEntities<{ value: number }>({ queryOptions })) {
      rows.push({ value, etag });
    }
    assert.equal(rows[0]?.value, rows[1]?.value, "half a transaction");
    return rows;
  }
}

const COUNTER = "counter";

async function verify(table: TableClient, known: Knowledge[], when: string): Promise<void> {
  for (const [client, knowledge] of known.entries()) {
    const partitionKey = `client ${client}`;
    judge(knowledge, await readPartition(table, partitionKey), `${when}, ${partitionKey}`);
  }
}

async function readPartition(
  table: TableClient,
  partitionKey: string,
): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  const queryOptions = { filter: odata`PartitionKey eq ${partitionKey}` };
  const entities = table.listEntities<{ value: number }>({ queryOptions });
  for await (const { rowKey = "", value } of entities) found.set(rowKey, value);
  return found;
}

/** Checks that the state found is one of the two that are possible, and records which. */
function judge(knowledge: Knowledge, found: Map<string, number>, where: string): void {
  const state = JSON.stringify([...found].sort());
  const expected = [knowledge.acknowledged, knowledge.underWay].map(
    (state) => state && JSON.stringify([...state].sort()),
  );
  assert.ok(
    expected.includes(state),
    `${where}: found ${state}, expected ${expected.join(" or ")}`,
  );
  knowledge.acknowledged = found;
  knowledge.underWay = undefined;
}

async function createUnlessThere(table: TableClient): Promise<void> {
  // The client treats TableAlreadyExists as success.
  await table.createTable();
}
