import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EngineError } from "../engine.ts";
import { query } from "./query.ts";
import { Session } from "./session.ts";
import { SessionPool } from "./session-pool.ts";
import { ServerError } from "./sql-state.ts";
import { textQuery } from "./statements.ts";
import { bound, complete, openSession, parsed, ready } from "./test-session.ts";

function fakeSession(): Session {
  return openSession().session;
}

function openPool(sessionsMax: number, connect = async () => fakeSession()) {
  let connectCount = 0;
  const pool = new SessionPool({
    sessionsMax,
    connect: () => {
      connectCount++;
      return connect();
    },
  });
  return { pool, connectCount: () => connectCount };
}

const SLOW = textQuery("SELECT pg_sleep(60)");
const LATER = performance.now() + 3_600_000;

describe("SessionPool", () => {
  it("opens sessions on demand and lends released ones again", async () => {
    const { pool, connectCount } = openPool(2);
    const first = await pool.acquire(LATER);
    pool.release(first);
    assert.equal(await pool.acquire(LATER), first);
    await pool.acquire(LATER);
    assert.equal(connectCount(), 2);
    pool.close();
  });

  it("opens no more than sessionsMax, and serves waiting callers in order", async () => {
    const { pool, connectCount } = openPool(1);
    const session = await pool.acquire(LATER);
    const served: string[] = [];
    const waiting = ["first", "second"].map(async (name) => {
      const own = await pool.acquire(LATER);
      served.push(name);
      pool.release(own);
    });
    pool.release(session);
    await Promise.all(waiting);
    assert.deepEqual(served, ["first", "second"]);
    assert.equal(connectCount(), 1);
    pool.close();
  });

  it("replaces a session that is lost while lent or idle", async () => {
    const { pool, connectCount } = openPool(1);
    const lent = await pool.acquire(LATER);
    lent.destroy(new Error("cut"));
    pool.release(lent);
    const second = await pool.acquire(LATER);
    assert.notEqual(second, lent);
    pool.release(second);
    second.destroy(new Error("cut"));
    assert.notEqual(await pool.acquire(LATER), second);
    assert.equal(connectCount(), 3);
    pool.close();
  });

  it("fails a caller whose deadline passes, and says that all connections are in use", async () => {
    const { pool } = openPool(1);
    await pool.acquire(LATER);
    const waiting = Promise.resolve(pool.acquire(performance.now()));
    pool.tick(performance.now() + 1);
    await assert.rejects(waiting, isUnavailable(/in use/));
    pool.close();
  });

  it("lets callers wait while the database cannot be reached", async () => {
    let isUp = false;
    let refused: () => void = () => {};
    const firstRefusal = new Promise<void>((resolve) => {
      refused = resolve;
    });
    const { pool } = openPool(2, async () => {
      if (isUp) return fakeSession();
      refused();
      throw new Error("ECONNREFUSED");
    });
    const waiting = pool.acquire(LATER);
    await firstRefusal;
    isUp = true;
    assert.ok((await waiting) instanceof Session);
    pool.close();
  });

  it("fails a caller whose deadline passes with the reason why the database cannot be reached", async () => {
    const { pool } = openPool(1, async () => {
      throw new Error("ECONNREFUSED");
    });
    const waiting = Promise.resolve(pool.acquire(performance.now()));
    await new Promise((resolve) => setImmediate(resolve));
    pool.tick(performance.now() + 1);
    await assert.rejects(waiting, isUnavailable(/ECONNREFUSED/));
    pool.close();
  });

  it("also gives up idle and lent sessions when one gets no answer until its deadline", async () => {
    const { pool } = openPool(4);
    const [silent, neighbour] = [await pool.acquire(LATER), await pool.acquire(LATER)];
    const kept = await pool.acquire(LATER);
    pool.release(neighbour);
    query(silent, SLOW).catch(() => {});
    pool.tick(performance.now());
    assert.equal(await pool.acquire(LATER), neighbour);
    pool.release(neighbour);

    pool.tick(LATER);
    assert.deepEqual([silent.isLost, neighbour.isLost, kept.isLost], [true, true, true]);
    assert.notEqual(await pool.acquire(LATER), neighbour);
    pool.close();
  });

  it("asks again whether a given-up session has ended when the answer is lost", async () => {
    const opened = [7, 8, 9].map((processId) => openSession(true, processId));
    const asked: (() => void)[] = [];
    const asking = opened.map(() => new Promise<void>((resolve) => asked.push(resolve)));
    let count = 0;
    const { pool } = openPool(1, async () => {
      setImmediate(asked[count]!);
      return opened[count++]!.session;
    });
    const silent = await pool.acquire(LATER);
    query(silent, SLOW).catch(() => {});
    pool.tick(LATER);
    assert.ok(silent.isGivenUp);

    const waiting = pool.acquire(LATER);
    await asking[1];
    assert.equal(opened[1]!.socket.takeSent(), "P: B: E S");
    opened[1]!.session.destroy(new Error("cut"));
    await asking[2];
    assert.equal(opened[2]!.socket.takeSent(), "P: B: E S");
    opened[2]!.answer(parsed, bound, complete, ready);
    assert.equal(await waiting, opened[2]!.session);
    pool.close();
  });

  it("fails all waiting callers at once when only the operator can help", async () => {
    const { pool, connectCount } = openPool(3, async () => {
      throw new ServerError(new Map([["C", "28P01"]]));
    });
    const waiting = [0, 1, 2].map(() => Promise.resolve(pool.acquire(LATER)));
    for (const each of waiting) await assert.rejects(each, isUnavailable(/operator/));
    assert.ok(connectCount() <= 3);
    const next = Array.from({ length: 20 }, () => Promise.resolve(pool.acquire(LATER)));
    const before = connectCount();
    for (const each of next) await assert.rejects(each, isUnavailable(/operator/));
    assert.equal(connectCount(), before + 1);
    pool.close();
  });

  it("fails new and waiting callers as Closed after close", async () => {
    const { pool } = openPool(1);
    const lent = await pool.acquire(LATER);
    const waiting = Promise.resolve(pool.acquire(LATER));
    pool.close();
    const isClosed = (error: unknown) => error instanceof EngineError && error.code === "Closed";
    await assert.rejects(waiting, isClosed);
    assert.throws(() => pool.acquire(LATER), isClosed);
    assert.equal(lent.isLost, true);
  });
});

function isUnavailable(pattern: RegExp) {
  return (error: unknown) =>
    error instanceof EngineError && error.code === "Unavailable" && pattern.test(error.message);
}
