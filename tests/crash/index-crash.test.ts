import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RestError, TableClient, type TransactionAction } from "@azure/data-tables";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { TableWire } from "../wire/table-wire.ts";
import { interrupt, type Pace, TWO_WORKERS } from "./interruption.ts";

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);
const rounds = Number(process.env.CRASH_ROUNDS ?? 2);
const CLIENTS = 4;
/** Hundreds. More than are built before a declaration is answered, so that servers are killed while they build. */
const OLD_BATCHES = 30;
const KEYS = ["A:Int32", "B:String", "A:Int32,B:String", "PartitionKey,B:String"];
const INSECURE = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };

describe(`A server killed while it keeps and builds indexes (seed ${seed}, CRASH_SEED repeats it)`, () => {
  it(`has indexes that are what their table says, in each of ${rounds} rounds, with one worker or two`, async () => {
    await withFolder(async (folder) => {
      const random = seededRandom(seed);
      let server: RowhouseProcess | undefined;
      let resumed = 0;
      try {
        for (let round = 0; round <= rounds; round++) {
          server = await startRowhouse(folder, round % 2 === 1 ? TWO_WORKERS : ["--silent"]);
          const wire = wireOf(server);
          if (round === 0) await createTable(server, wire);
          // What was being built when it was killed goes on, and what was repaired or dropped is whole.
          if (
            (await list(wire)).some(({ name, state }) => name === "Late" && state === "building")
          ) {
            resumed++;
          }
          await settle(wire);
          await verify(wire, `after round ${round}`);
          if (round < rounds) {
            await wire.send("DELETE", "/_rowhouse/indexes/Late");
            const late = { table: "Crash", key: "B:String,A:Int32", rate: 500 };
            const declared = await wire.send("PUT", "/_rowhouse/indexes/Late", { body: late });
            assert.equal(declared.status, 201, String(declared));
            const answers = 100 + Math.floor(random() * 300);
            await interrupt({ server, victim: "everything", answers, random }, (pace) =>
              Promise.all([
                ...Array.from({ length: CLIENTS }, (_, client) =>
                  write(clientOf(server!), client, random, pace),
                ),
                tend(wireOf(server!), pace),
              ]),
            );
          } else assert.equal(await server.stop(), 0);
          wire.close();
          server = undefined;
        }
        assert.ok(resumed > 0, "No server was killed while it built an index.");
      } finally {
        await server?.kill();
      }
    });
  });
});

function clientOf({ connectionString }: RowhouseProcess): TableClient {
  return TableClient.fromConnectionString(connectionString, "Crash", INSECURE);
}

function wireOf({ tableUrl }: RowhouseProcess): TableWire {
  const { name: account, keys } = DEVELOPMENT_ACCOUNT;
  const key = Buffer.from(keys[0]!).toString("base64");
  return new TableWire({ url: `${tableUrl}/${account}`, account, key });
}

async function createTable(server: RowhouseProcess, wire: TableWire): Promise<void> {
  const table = clientOf(server);
  await table.createTable();
  for (let batch = 0; batch < OLD_BATCHES; batch++) {
    const actions = Array.from({ length: 100 }, (_, row): TransactionAction => {
      const keys = { partitionKey: `old ${batch}`, rowKey: String(row) };
      return ["create", { ...keys, A: row, B: `b${row % 7}` }];
    });
    await table.submitTransaction(actions);
  }
  for (const [at, key] of KEYS.entries()) {
    const body = { table: "Crash", key, rate: 0 };
    await wire.send("PUT", `/_rowhouse/indexes/Index${at}`, { body });
  }
}

/** Writes of every kind, until the round or the server ends. */
async function write(
  table: TableClient,
  client: number,
  random: () => number,
  pace: Pace,
): Promise<void> {
  const partitionKey = `client ${client % 4}`;
  while (!pace.isOver) {
    const row = (rowKey: number) => ({
      partitionKey,
      rowKey: String(rowKey),
      A: Math.floor(random() * 5),
      ...(random() < 0.7 && { B: `b${Math.floor(random() * 5)}` }),
    });
    const some = Math.floor(random() * 20);
    const kind = random();
    try {
      if (kind < 0.3) {
        const actions = [1, 2, 3].map((step): TransactionAction => {
          return ["upsert", row(some + step), random() < 0.5 ? "Merge" : "Replace"];
        });
        await table.submitTransaction(actions);
      } else if (kind < 0.5) await table.deleteEntity(partitionKey, String(some));
      else await table.upsertEntity(row(some), kind < 0.75 ? "Merge" : "Replace");
      pace.answer();
    } catch (error) {
      if (!(error instanceof RestError)) throw error;
      if (error.statusCode === 404) continue;
      if (error.statusCode !== undefined) throw error;
      if (pace.isLast) return;
    }
  }
}

/** Repairs, and drops and declares an index, all the time. */
async function tend(wire: TableWire, pace: Pace): Promise<void> {
  try {
    while (!pace.isOver) {
      const from = { over: "entities", partitionKey: "", rowKey: "" };
      await wire.send("POST", "/_rowhouse/indexes/Index0?comp=repair", { body: from });
      await wire.send("DELETE", "/_rowhouse/indexes/Dropped");
      const body = { table: "Crash", key: "A:String", rate: 0 };
      await wire.send("PUT", "/_rowhouse/indexes/Dropped", { body });
    }
  } catch {
    // The server was killed.
  } finally {
    wire.close();
  }
}

interface Shown {
  readonly name: string;
  readonly state: string;
}

async function list(wire: TableWire): Promise<readonly Shown[]> {
  const answer = await wire.send("GET", "/_rowhouse/indexes");
  return (answer.json() as { indexes: readonly Shown[] }).indexes;
}

/** Resolves once every index is ready. */
async function settle(wire: TableWire): Promise<void> {
  while ((await list(wire)).some(({ state }) => state === "building"));
}

async function verify(wire: TableWire, when: string): Promise<void> {
  for (const { name, state } of await list(wire)) {
    assert.equal(state, "ready", `${name} ${when}`);
    let body: object = { over: "entities", partitionKey: "", rowKey: "" };
    for (;;) {
      const answer = await wire.send("POST", `/_rowhouse/indexes/${name}?comp=verify`, { body });
      const piece = answer.json() as { next: object | null; findings: object };
      const clean = { missing: 0, altered: 0, surplus: 0 };
      assert.deepEqual(piece.findings, clean, `${name} ${when}: ${String(answer)}`);
      if (piece.next === null) break;
      body = piece.next;
    }
  }
}
