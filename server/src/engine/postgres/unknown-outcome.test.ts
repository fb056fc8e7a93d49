import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it, mock } from "node:test";
import { systemClock } from "../../clock.ts";
import { EngineError } from "../engine.ts";
import { VersionClock } from "../version-clock.ts";
import { Commits } from "./commits.ts";
import { openPostgresEngine, type PostgresEngine } from "./postgres-engine.ts";
import { SessionPool } from "./session-pool.ts";
import { Relay } from "./test-relay.ts";
import { type TestServer, testServer } from "./test-server.ts";
import {
  failure,
  message,
  openSession,
  poolerFailure,
  ready,
  standbyWarning,
} from "./test-session.ts";
import { keyOf, textOf } from "./test-workloads.ts";

describe("A commit whose answer is lost", () => {
  let server: TestServer;
  let url: string;
  let relay: Relay;
  let engine: PostgresEngine;

  before(async () => {
    server = await testServer();
    url = await server.createDatabase();
    relay = await Relay.open(url);
    engine = await openPostgresEngine({ allowUnsafe: true, url: relay.url });
  });
  after(async () => {
    await engine.close();
    await relay.close();
    await server.dropDatabase(url);
    await server.stop();
  });
  beforeEach(() => {
    relay.onAnswer = () => "pass";
    relay.onRequest = (message) => message;
    // The two seconds in which the outcome is looked up do not pass: a busy machine may need them to reconnect.
    const now = performance.now();
    mock.method(performance, "now", () => now);
  });
  afterEach(() => mock.restoreAll());

  /** Cuts the connection when the server reports the n-th statement from now on as complete. */
  function cutAtComplete(count: number): void {
    let seen = 0;
    relay.onAnswer = (code) => {
      if (code !== "C" || seen < 0) return "pass";
      seen++;
      if (seen < count) return "pass";
      seen = -1;
      return "cut";
    };
  }

  /**
   * Replaces the server's answer to a commit behind its first `completed` statements with `error`. The answer
   * is so short that the server sends none of it before it has committed everything.
   */
  function answerWith(error: Buffer, completed: number, end: "pass" | "cut" = "cut"): void {
    let seen = 0;
    let answered: number | undefined;
    relay.onAnswer = (code, _body, connection) => {
      if (answered !== undefined && answered !== connection) return "pass";
      if (code === "Z" && answered !== undefined) {
        relay.onAnswer = () => "pass";
        return end;
      }
      if (code !== "C") return "pass";
      seen++;
      if (seen <= completed) return "pass";
      if (answered !== undefined) return "swallow";
      answered = connection;
      return error;
    };
  }

  const a = keyOf("unknown", "a");
  const b = keyOf("unknown", "b");
  const elsewhere = keyOf("unknown2", "b");
  const isUnknown = (error: unknown) => error instanceof EngineError && error.code === "Unknown";

  async function clear(): Promise<void> {
    await commitSteps({ deletes: [a, b, elsewhere] });
  }

  function commitSteps(steps: {
    version?: number;
    puts?: { key: typeof a; value: Uint8Array }[];
    deletes?: (typeof a)[];
  }) {
    const { version = engine.nextVersion(), puts = [], deletes = [] } = steps;
    return engine.commit({ version, checks: [], puts, deletes });
  }

  it("is found committed when its row shows it", async () => {
    await clear();
    cutAtComplete(1);
    const version = engine.nextVersion();
    const result = await commitSteps({ version, puts: [{ key: a, value: Buffer.from("one") }] });
    assert.deepEqual(result, { committed: true, versions: [version] });
  });

  it("is looked up again when the connection for the lookup breaks", async () => {
    await clear();
    const broken = new Set<number>();
    relay.onRequest = (message, connection) => {
      if (message.includes("rh_read_locked") && broken.size < 3) broken.add(connection);
      return message;
    };
    let isCut = false;
    relay.onAnswer = (code, _body, connection) => {
      if (broken.has(connection)) return "cut";
      if (code !== "C" || isCut) return "pass";
      isCut = true;
      return "cut";
    };
    const version = engine.nextVersion();
    const result = await commitSteps({ version, puts: [{ key: a, value: Buffer.from("one") }] });
    assert.deepEqual(result, { committed: true, versions: [version] });
    assert.equal(broken.size, 3);
  });

  /**
   * Adds the warning that the standby was not waited for to the first `count` answers of successful commits.
   */
  function warn(count: number): void {
    let warned = 0;
    relay.onAnswer = (code, body) => {
      const isCommit =
        code === "C" && /^(INSERT|DELETE|SELECT|COMMIT)/.test(body.toString("latin1"));
      if (!isCommit || warned === count) return "pass";
      warned++;
      return Buffer.concat([standbyWarning, message("C", body)]);
    };
  }

  it("is looked up under lock when the server did not wait for its standby", async () => {
    await clear();
    const lookedFor: number[] = [];
    relay.onRequest = (request, connection) => {
      if (request.includes("rh_read_locked")) lookedFor.push(connection);
      return request;
    };
    warn(1);
    const version = engine.nextVersion();
    const puts = [{ key: a, value: Buffer.from("one") }];
    assert.deepEqual(await commitSteps({ version, puts }), {
      committed: true,
      versions: [version],
    });
    assert.equal(lookedFor.length, 1);
  });

  it("stays unknown when the server does not wait for its standby at the lookup either", async () => {
    await clear();
    warn(Number.POSITIVE_INFINITY);
    const puts = [{ key: a, value: Buffer.from("one") }];
    await assert.rejects(commitSteps({ puts }), isUnknown);
  });

  it("is found committed when all rows of a group show it", async () => {
    await clear();
    // BEGIN, two locks, two upserts, COMMIT.
    cutAtComplete(6);
    const version = engine.nextVersion();
    const puts = [a, elsewhere].map((key) => ({ key, value: Buffer.from("group") }));
    const result = await commitSteps({ version, puts });
    assert.deepEqual(result, { committed: true, versions: [version, version] });
  });

  it("stays unknown when its version was raised, since the stored one proves nothing", async () => {
    await clear();
    const early = engine.nextVersion();
    await commitSteps({ puts: [{ key: a, value: Buffer.from("first") }] });
    cutAtComplete(1);
    const puts = [{ key: a, value: Buffer.from("second") }];
    await assert.rejects(commitSteps({ version: early, puts }), isUnknown);
    assert.equal(textOf((await engine.get([a]))[0]), "second");
  });

  it("stays unknown when it only deletes, since no row is left to show it", async () => {
    await commitSteps({ puts: [{ key: a, value: Buffer.from("first") }] });
    cutAtComplete(1);
    await assert.rejects(commitSteps({ deletes: [a] }), isUnknown);
    assert.deepEqual(await engine.get([a]), [undefined]);
  });

  it("is never repeated when a pooler reports that it lost the server, under any SQLSTATE", async () => {
    for (const error of [
      poolerFailure("08P01"),
      poolerFailure("08P01", "ERROR"),
      poolerFailure("58000"),
      poolerFailure("57P01"),
    ]) {
      const checks = [{ key: a, expected: "absent" as const }];
      for (const keys of [[a], [a, b]]) {
        await clear();
        answerWith(error, 0);
        const version = engine.nextVersion();
        const puts = keys.map((key) => ({ key, value: Buffer.from("once") }));
        assert.deepEqual(await engine.commit({ version, checks, puts, deletes: [] }), {
          committed: true,
          versions: keys.map(() => version),
        });
      }
      answerWith(error, 0);
      await assert.rejects(commitSteps({ deletes: [a] }), isUnknown);
      assert.deepEqual(await engine.get([a]), [undefined]);
    }
  });

  it("is repeated when PostgreSQL itself aborted it before its COMMIT", async () => {
    await clear();
    await commitSteps({ puts: [{ key: a, value: Buffer.from("before") }] });
    // Its statements are BEGIN, a put in each partition, COMMIT.
    answerWith(failure("57P01", "FATAL"), 1);
    const puts = [a, elsewhere].map((key) => ({ key, value: Buffer.from("again") }));
    const { committed } = await commitSteps({ puts });
    assert.equal(committed, true);
    assert.deepEqual((await engine.get([a, elsewhere])).map(textOf), ["again", "again"]);
  });

  it("is looked up when its COMMIT was answered with an error or a crash", async () => {
    for (const [error, end] of [
      [failure("53100", "PANIC"), "cut"],
      [failure("53200", "FATAL"), "cut"],
      [failure("55000"), "pass"],
      [failure("42601"), "pass"],
    ] as const) {
      await clear();
      // BEGIN and a put in each partition are answered.
      answerWith(error, 3, end);
      const version = engine.nextVersion();
      const puts = [a, elsewhere].map((key) => ({ key, value: Buffer.from("here") }));
      assert.deepEqual(await commitSteps({ version, puts }), {
        committed: true,
        versions: [version, version],
      });
      assert.deepEqual((await engine.get([a, elsewhere])).map(textOf), ["here", "here"]);
      // BEGIN, and a hold and a deletion in each.
      answerWith(error, 5, end);
      await assert.rejects(commitSteps({ deletes: [a, elsewhere] }), isUnknown);
    }
  });

  it("stays unknown when a rival has overwritten its row, and leaves the rival's write in place", async () => {
    await clear();
    // It connects directly, not through the relay.
    const rival = await openPostgresEngine({ allowUnsafe: true, url });
    const later = { version: rival.nextVersion(), checks: [], deletes: [] };
    const puts = [{ key: a, value: Buffer.from("rival's") }];
    let overwriting: Promise<unknown> | undefined;
    let isOverwritten = false;
    /** Connections of the lookups that are cut because the rival has not committed yet. */
    const early = new Set<number>();
    relay.onRequest = (message, connection) => {
      if (message.includes("rh_read_locked") && !isOverwritten) early.add(connection);
      return message;
    };
    relay.onAnswer = (code, _body, connection) => {
      if (early.has(connection)) return "cut";
      if (code !== "C" || overwriting !== undefined) return "pass";
      overwriting = rival.commit({ ...later, puts }).then(({ committed }) => {
        isOverwritten = committed;
      });
      return "cut";
    };
    const ours = [{ key: a, value: Buffer.from("ours") }];
    await assert.rejects(commitSteps({ puts: ours }), isUnknown);
    await overwriting;
    assert.ok(isOverwritten);
    assert.equal(textOf((await engine.get([a]))[0]), "rival's");
    await rival.close();
  });
});

describe("A server whose binary answers are corrupted on the way", () => {
  it("is read in text form", async () => {
    const server = await testServer();
    const url = await server.createDatabase();
    const relay = await Relay.open(url);
    // A pooler that reads bytes as UTF-8 and writes them again does this to every byte above 127.
    relay.onAnswer = (code, body) => {
      if (code === "D") mangleFields(body);
      return "pass";
    };
    const engine = await openPostgresEngine({ allowUnsafe: true, url: relay.url });
    const value = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
    const key = { partition: value.subarray(100), sort: value.subarray(200) };
    const version = engine.nextVersion();
    const puts = [{ key, value }];
    assert.deepEqual(await engine.commit({ version, checks: [], puts, deletes: [] }), {
      committed: true,
      versions: [version],
    });
    const [entry] = await engine.get([key]);
    assert.deepEqual([Buffer.from(entry!.value), entry!.version], [value, version]);
    const scanned: Buffer[] = [];
    await engine.scan({ start: key }, (each) => {
      scanned.push(Buffer.from(each.key.partition), Buffer.from(each.value));
      return true;
    });
    assert.deepEqual(scanned, [key.partition, value]);
    await engine.close();
    await relay.close();
    await server.dropDatabase(url);
    await server.stop();
  });

  function mangleFields(body: Buffer): void {
    for (let at = 2; at < body.length; ) {
      const length = Math.max(0, body.readInt32BE(at));
      at += 4;
      for (const end = at + length; at < end; at++) if (body[at]! > 127) body[at] = 63;
    }
  }
});

describe("A commit that a lost worker has refused until its deadline", () => {
  afterEach(() => mock.restoreAll());

  it("is known not to have happened, also if its last attempt is answered after the deadline", async () => {
    let now = performance.now();
    mock.method(performance, "now", () => now);
    const { session, socket, answer } = openSession();
    const connect = async () => {
      // Given up: there is nobody to ask what happened.
      if (session.isLost) pool.close();
      return session;
    };
    const pool = new SessionPool({ sessionsMax: 1, connect });
    const timeoutMs = 1_000;
    const commits = new Commits({
      pool,
      get: async () => [],
      versions: new VersionClock(systemClock),
      dialect: "citus",
      timeoutMs,
    });
    const puts = ["a", "b"].map((sort) => ({ key: keyOf("lost", sort), value: Buffer.from("x") }));
    const refused = assert.rejects(
      commits.commit({ version: 1, checks: [], puts, deletes: [] }),
      (error) => error instanceof EngineError && error.code === "Unavailable",
    );
    for (let attempt = 1; attempt <= 2; attempt++) {
      while (!socket.takeSent().endsWith("S")) await new Promise(setImmediate);
      if (attempt === 2) now += timeoutMs + 1;
      pool.tick(now);
      answer(failure("08006"), ready);
    }
    await refused;
    pool.close();
  });
});
