import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Database } from "./database.ts";
import { isTableError } from "./index.ts";
import { note, QUEUE } from "./messages/test-worker.ts";
import { createWorker, type Handler, sendMessage } from "./queue-worker.ts";
import { schedules } from "./testing/test-histories.ts";
import { interleave } from "./testing.ts";

describe("workers of one queue that stall", () => {
  it("write nothing for a message after another worker finished it or set it aside", async () => {
    const visibilityMs = 10_000;
    let final: string[] | undefined;
    const handle: Handler["handle"] = async (_message, { database }) => {
      for (const rowKey of ["a", "b", "c"]) {
        const row = { partitionKey: "p", rowKey, properties: {} };
        await database.tables.commit("Notes", [{ kind: "insertOrReplace", ...row }]);
        if (database.random() < 0.3) await database.clock.sleep(20_000 * database.random());
      }
      if (database.random() < 0.2) throw new Error("not now");
    };
    const worker = async (db: Database) => {
      const handlers = [{ kind: "note", handle }];
      const one = createWorker(db, { queue: QUEUE, visibilityMs, handlers });
      for (let i = 0; i < 3; i++) {
        await db.clock.sleep(30_000 * db.random());
        await one.drain().catch((error) => {
          if (!isTableError(error, "throttled")) throw error;
        });
      }
    };
    await interleave({
      before: async (db) => {
        final = undefined;
        await db.tables.createTable("Notes");
        await createWorker(db, { queue: QUEUE, handlers: [] }).createQueues();
        await sendMessage(db, QUEUE, note("a"));
      },
      clients: { one: worker, two: worker, three: worker },
      always: async ({ queues, tables }) => {
        if (queues.contents(QUEUE).length > 0) return;
        const etags = (await tables.query("Notes", {})).entities.map(({ etag }) => etag);
        final ??= etags;
        assert.deepEqual(etags, final);
      },
      check: async () => undefined,
      pausesMs: [300, 700, 2000, 6000, 11_000, 35_000, 61_000],
      crashShare: 0.01,
      runs: schedules(300),
    });
  });
});
