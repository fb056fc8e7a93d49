import assert from "node:assert/strict";
import { RestError, TableClient } from "@azure/data-tables";
import type { RowhouseProcess } from "../support/rowhouse-process.ts";

/** After this many refusals in a row, a worker concludes that the service does not come back. */
const REFUSALS_MAX = 20_000;

export interface History {
  acknowledged: number;
  isOver: boolean;
}

/**
 * Increments a number in two entities of its own partition, both in one transaction under their ETags, through
 * either front end. The value found must be the acknowledged one, plus those whose outcome was unknown.
 */
export async function work(
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

export function clientOf({ connectionString }: RowhouseProcess): TableClient {
  return TableClient.fromConnectionString(connectionString, "Counters", {
    allowInsecureConnection: true,
    retryOptions: { maxRetries: 0 },
  });
}

export async function reached(history: History, acknowledged: number): Promise<void> {
  while (history.acknowledged < acknowledged) await new Promise((resolve) => setImmediate(resolve));
}
