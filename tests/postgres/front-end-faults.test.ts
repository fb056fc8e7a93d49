import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RestError, TableClient } from "@azure/data-tables";
import { LocalServer } from "@rowhouse/server/engine/postgres/test-server";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";

const seed = Number(process.env.FAULTS_SEED ?? Date.now() % 1_000_000);
const faults = Number(process.env.FAULTS ?? 3);
const WORKERS = 6;
const WRITES_BETWEEN_FAULTS = 40;
/** After this many refusals in a row, a worker concludes that the service does not come back. */
const REFUSALS_MAX = 20_000;

describe(`Two front ends and their database, killed and restarted (seed ${seed}, FAULTS_SEED repeats it)`, () => {
  it(`lose no acknowledged transaction, show no partial one and recover from each of ${faults} faults`, async () => {
    await withFolder(async (folder) => {
      const database = await LocalServer.create();
      await database.start();
      const url = await database.createDatabase();
      const start = () =>
        startRowhouse(folder, ["--silent", "--engine", url, "--engineConnections", "6"]);
      const fronts = [await start(), await start()];
      try {
        await clientOf(fronts[0]!).createTable();
        const random = seededRandom(seed);
        const history: History = { acknowledged: 0, isOver: false };
        const workers = Array.from({ length: WORKERS }, (_, worker) =>
          work(worker, fronts, history),
        );
        for (let fault = 0; fault < faults; fault++) {
          await reached(history, (fault + 1) * WRITES_BETWEEN_FAULTS);
          if (random() < 0.4) {
            await database.stop("immediate");
            await database.start();
          } else {
            const victim = random() < 0.5 ? 0 : 1;
            await fronts[victim]!.kill();
            fronts[victim] = await start();
          }
        }
        await reached(history, (faults + 1) * WRITES_BETWEEN_FAULTS);
        history.isOver = true;
        await Promise.all(workers);
      } finally {
        await Promise.all(fronts.map((front) => front.kill()));
        await database.remove();
      }
    });
  });
});

interface History {
  acknowledged: number;
  isOver: boolean;
}

/**
 * Increments a number in two entities of its own partition, both in one transaction under their ETags, through
 * either front end. The value found must be the acknowledged one, plus those whose outcome was unknown.
 */
async function work(
  worker: number,
  fronts: readonly RowhouseProcess[],
  history: History,
): Promise<void> {
  const partitionKey = `worker ${worker}`;
  let acknowledged = 0;
  let unknown = 0;
  let refusals = 0;
  for (let turn = worker; ; turn++) {
    const table = clientOf(fronts[turn % fronts.length]!);
    try {
      const rows = [];
      for await (const row of table.listEntities<{ n: number }>({
        queryOptions: { filter: `PartitionKey eq '${partitionKey}'` },
      })) {
        rows.push(row);
      }
      refusals = 0;
      const n = rows[0]?.n ?? 0;
      assert.ok(rows.length === 0 || rows.length === 2, `${partitionKey} has ${rows.length} rows`);
      assert.ok(
        rows.every((row) => row.n === n),
        `half a transaction: ${rows.map((row) => row.n)}`,
      );
      assert.ok(
        n >= acknowledged && n <= acknowledged + unknown,
        `found ${n}; acknowledged ${acknowledged}, unknown ${unknown}`,
      );
      if (history.isOver) return;
      const next = n + 1;
      const write =
        rows.length === 0
          ? table.submitTransaction([
              ["create", { partitionKey, rowKey: "a", n: next }],
              ["create", { partitionKey, rowKey: "b", n: next }],
            ])
          : table.submitTransaction(
              rows.map((row) => [
                "update",
                { partitionKey, rowKey: row.rowKey!, n: next },
                "Replace",
                { etag: row.etag },
              ]),
            );
      const outcome = await settled(write);
      switch (outcome) {
        case "committed":
          // Earlier unknown outcomes are settled now: they happened or never will.
          acknowledged = next;
          unknown = 0;
          history.acknowledged++;
          break;
        case "conflict":
          assert.ok(unknown > 0, "another writer changed an entity that has only one writer");
          break;
        case "unknown":
          unknown++;
          break;
      }
    } catch (error) {
      if (error instanceof assert.AssertionError || !(error instanceof RestError)) throw error;
      assert.ok(++refusals < REFUSALS_MAX, `the service stayed away: ${error.message}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

type Outcome = "committed" | "conflict" | "refused" | "unknown";

async function settled(write: Promise<unknown>): Promise<Outcome> {
  try {
    await write;
    return "committed";
  } catch (error) {
    if (!(error instanceof RestError)) throw error;
    switch (error.statusCode) {
      case 409:
      case 412:
        return "conflict";
      case 503:
        return "refused";
      default:
        // Time-outs and broken connections.
        assert.ok(error.statusCode === undefined || error.statusCode === 500, String(error));
        return "unknown";
    }
  }
}

function clientOf({ connectionString }: RowhouseProcess): TableClient {
  return TableClient.fromConnectionString(connectionString, "Counters", {
    allowInsecureConnection: true,
    retryOptions: { maxRetries: 0 },
  });
}

async function reached(history: History, acknowledged: number): Promise<void> {
  while (history.acknowledged < acknowledged) await new Promise((resolve) => setImmediate(resolve));
}
