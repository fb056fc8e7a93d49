import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, isTableError } from "../index.ts";
import { PortError } from "../ports/port-error.ts";
import type { Mutation } from "../ports/tables.ts";
import { intercept, type Layer, memory } from "../testing.ts";
import { deadlineOf } from "./layer.ts";

/** One slot, which the insert of row "slow" holds until `finish` is called, and by the clock for this long. */
async function busyFor(ms: number) {
  const backend = memory();
  const timeouts: unknown[] = [];
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const layer: Layer = async (call, send) => {
    if (call.method !== "commit") return send();
    timeouts.push(deadlineOf(call).timeoutS);
    const answer = await send();
    if (timeouts.length === 1) {
      await released;
      backend.clock.advance(ms);
    }
    return answer;
  };
  const db = connect({ ...backend, ...intercept(backend, layer), limit: { account: 1 } });
  await db.tables.createTable("Rows");
  const slow = db.tables.commit("Rows", insert("slow"));
  const finish = () => {
    release();
    return slow;
  };
  return { clock: backend.clock, db, finish, timeouts };
}

function insert(rowKey: string): readonly [Mutation] {
  return [{ kind: "insert", partitionKey: rowKey, rowKey, properties: {} }];
}

describe("a write with a deadline", () => {
  it("is sent with the time that is left when its turn comes", async () => {
    const { clock, db, finish, timeouts } = await busyFor(12_000);
    const byMs = clock.now() + 20_000;
    const writes = [
      db.tables.commit("Rows", insert("a"), { sendByMs: byMs }),
      db.inTime(() => byMs).tables.commit("Rows", insert("b")),
      db.inTime(() => byMs).tables.commit("Rows", insert("c"), { timeoutS: 5 }),
      db.inTime(() => clock.now()).tables.commit("Rows", insert("d")),
    ];
    await Promise.all([finish(), ...writes]);
    assert.deepEqual(timeouts, [undefined, 8, 8, 5, 1]);
  });

  it("is sent with less time in each attempt", async () => {
    const backend = memory();
    const timeouts: unknown[] = [];
    const busy: Layer = async (call, send) => {
      if (call.method !== "commit") return send();
      timeouts.push(deadlineOf(call).timeoutS);
      if (timeouts.length < 3) throw new PortError("busy", { status: 503, code: "ServerBusy" });
      return send();
    };
    const db = connect({ ...backend, ...intercept(backend, busy), random: () => 0.5 });
    await db.tables.createTable("Rows");
    await db.tables.commit("Rows", insert("a"), { sendByMs: backend.clock.now() + 30_000 });
    assert.deepEqual(timeouts, [30, 28, 24]);
  });

  it("is sent if its deadline was extended while it waited for its turn", async () => {
    const { clock, db, finish, timeouts } = await busyFor(90_000);
    const begunAt = clock.now();
    // Like a lease that is renewed every half minute.
    const renewed = () => begunAt + Math.floor((clock.now() - begunAt) / 30_000) * 30_000 + 60_000;
    await Promise.all([finish(), db.inTime(renewed).tables.commit("Rows", insert("a"))]);
    assert.deepEqual(timeouts, [undefined, 60]);
  });

  it("is sent if one of two deadlines passed while the other was computed, and both were extended", async () => {
    const { clock, db, finish, timeouts } = await busyFor(0);
    await finish();
    let asked = 0;
    const lease = () => clock.now() + 60_000;
    const state = async () => {
      if (++asked === 1) clock.advance(90_000);
      return clock.now() + 50_000;
    };
    await db.inTime(lease).inTime(state).tables.commit("Rows", insert("a"));
    assert.deepEqual([timeouts, asked], [[undefined, 50], 2]);
  });

  it("is not sent after a fixed deadline", async () => {
    const { clock, db, finish, timeouts } = await busyFor(90_000);
    const byMs = clock.now() + 60_000;
    const late = [
      db.tables.commit("Rows", insert("a"), { sendByMs: byMs }),
      db.inTime(() => byMs).tables.commit("Rows", insert("b")),
      db
        .inTime(() => byMs)
        .tables.commit("Rows", insert("c"), { sendByMs: Number.POSITIVE_INFINITY }),
      db.inTime(() => Number.NaN).tables.commit("Rows", insert("d")),
    ];
    const results = await Promise.allSettled([finish(), ...late]);
    assert.equal(timeouts.length, 1);
    for (const result of results.slice(1)) {
      assert.ok(result.status === "rejected" && isTableError(result.reason, "throttled"));
    }
  });
});
