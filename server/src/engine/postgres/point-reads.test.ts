import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EngineError } from "../engine.ts";
import { type PointRead, PointReads } from "./point-reads.ts";
import type { Session } from "./session.ts";
import { SessionPool } from "./session-pool.ts";
import { ServerError } from "./sql-state.ts";
import type { Statement } from "./statements.ts";
import { bound, complete, failure, openSession, ready } from "./test-session.ts";

/** Reads over at most one session, whose server is the test. */
function openReads(deadline = performance.now() + 3_600_000, connecting = Promise.resolve()) {
  const servers: ReturnType<typeof openSession>[] = [];
  const pool = new SessionPool({
    sessionsMax: 1,
    connect: async () => {
      await connecting;
      const server = openSession(false);
      servers.push(server);
      return server.session;
    },
  });
  const reads = new PointReads(pool, { sessionsMax: 1, dialect: "postgres" });
  const log: string[] = [];
  const submitAgain = (read: NamedRead) => reads.submit(read);
  const submit = (name: string, until = deadline) => {
    const read = new NamedRead(name, until, log);
    submitAgain(read);
    return read;
  };
  return { submit, submitAgain, log, servers, pool, server: () => servers.at(-1)! };
}

/** A read that logs its outcome. */
class NamedRead implements PointRead {
  readonly deadline: number;
  readonly statementCount = 1;
  failures = 0;
  readonly #statement: Statement;
  readonly #name: string;
  readonly #log: string[];

  constructor(name: string, deadline: number, log: string[]) {
    this.deadline = deadline;
    this.#name = name;
    this.#log = log;
    this.#statement = { name: undefined, text: name, parameterTypes: [] };
  }

  send(session: Session): void {
    this.#log.push(`send ${this.#name}`);
    session.bind(this.#statement);
    session.execute();
  }

  row(): void {}
  restart(): void {}

  resolve(): void {
    this.#log.push(`resolve ${this.#name}`);
  }

  reject(error: Error): void {
    const code = error instanceof EngineError ? error.code : "a bug";
    this.#log.push(`reject ${this.#name}: ${code}`);
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe("PointReads", () => {
  /** Opens the session with a first read and answers it. */
  async function warmUp(test: ReturnType<typeof openReads>): Promise<void> {
    test.submit("first");
    await nextTurn();
    test.server().answer(bound, complete, ready);
    test.log.length = 0;
    test.server().socket.takeSent();
  }

  it("sends a read at once when none is in flight, and the following ones together", async () => {
    const test = openReads();
    await warmUp(test);
    test.submit("a");
    assert.equal(test.server().socket.takeSent(), "P: B: E S");
    test.submit("b");
    test.submit("c");
    assert.equal(test.server().socket.takeSent(), "");
    await nextTurn();
    assert.equal(test.server().socket.takeSent(), "P: B: E P: B: E S");
    test.server().answer(bound, complete, ready);
    test.server().answer(bound, complete, bound, complete, ready);
    assert.deepEqual(test.log.slice(3), ["resolve a", "resolve b", "resolve c"]);
    test.pool.close();
  });

  it("rejects only the read that fails, and repeats those sent with it", async () => {
    const test = openReads();
    await warmUp(test);
    for (const name of ["a", "b", "poison", "d"]) test.submit(name);
    await nextTurn();
    test.server().answer(bound, complete, ready);
    test.log.length = 0;
    test.server().answer(bound, complete, failure("42601"), ready);
    await nextTurn();
    assert.deepEqual(test.log, ["send b", "reject poison: a bug", "send d"]);
    test.server().answer(bound, complete, ready, bound, complete, ready);
    assert.deepEqual(test.log.slice(3), ["resolve b", "resolve d"]);
    test.pool.close();
  });

  it("sends a read that failed alone in its own group from then on", async () => {
    const test = openReads();
    await warmUp(test);
    const lost = test.submit("lost");
    test.server().answer(failure("08006"), ready);
    assert.equal(lost.failures, 1);
    test.log.length = 0;
    // It is repeated after a random delay.
    while (test.log.length === 0) await nextTurn();
    assert.equal(test.server().socket.takeSent(), "P: B: E S P: B: E S");
    test.submit("b");
    test.submitAgain(lost);
    test.submit("c");
    assert.equal(test.server().socket.takeSent(), "P: B: E S P: B: E S");
    await nextTurn();
    assert.equal(test.server().socket.takeSent(), "P: B: E S");
    assert.deepEqual(test.log, ["send lost", "send b", "send lost", "send c"]);
    test.pool.close();
  });

  it("repeats all reads of a lost connection over another", async () => {
    const test = openReads();
    await warmUp(test);
    for (const name of ["a", "b"]) test.submit(name);
    await nextTurn();
    test.server().session.destroy(new Error("cut"));
    test.log.length = 0;
    while (test.log.length < 2) await nextTurn();
    assert.equal(test.servers.length, 2);
    assert.deepEqual(test.log.toSorted(), ["send a", "send b"]);
    test.pool.close();
  });

  it("rejects a read of a lost connection after its deadline", async () => {
    const test = openReads(performance.now() - 1);
    test.submit("late");
    await nextTurn();
    test.server().session.destroy(new Error("cut"));
    assert.deepEqual(test.log, ["send late", "reject late: Unavailable"]);
    test.pool.close();
  });

  it("rejects an overdue read that waits for a session which a read with more time opens", async () => {
    const test = openReads(undefined, new Promise(() => {}));
    test.submit("new");
    test.submit("older", performance.now());
    test.pool.tick(performance.now() + 60_000);
    await nextTurn();
    assert.deepEqual(test.log, ["reject older: Unavailable"]);
    test.pool.close();
  });

  it("rejects all reads that wait for a session at once when only the operator can help", async () => {
    const refusal = new ServerError(new Map([["C", "28P01"]]));
    const test = openReads(undefined, Promise.reject(refusal));
    test.submit("a");
    test.submit("b");
    await nextTurn();
    assert.deepEqual(test.log, ["reject a: Unavailable", "reject b: Unavailable"]);
    test.pool.close();
  });

  it("rejects reads that wait for a session as Closed when the pool is closed, and all later ones", async () => {
    const test = openReads(undefined, new Promise(() => {}));
    test.submit("a");
    test.submit("b");
    await nextTurn();
    assert.deepEqual(test.log, []);
    test.pool.close();
    await nextTurn();
    assert.deepEqual(test.log, ["reject a: Closed", "reject b: Closed"]);
    test.submit("late");
    await nextTurn();
    assert.deepEqual(test.log.slice(2), ["reject late: Closed"]);
  });

  it("rejects reads in flight, and those about to be sent, as Closed when the pool is closed", async () => {
    const test = openReads();
    await warmUp(test);
    test.submit("sent");
    test.submit("gathered");
    test.log.length = 0;
    test.pool.close();
    // Each is repeated after a random delay.
    while (test.log.length < 2) await nextTurn();
    assert.deepEqual(test.log.toSorted(), ["reject gathered: Closed", "reject sent: Closed"]);
  });
});
