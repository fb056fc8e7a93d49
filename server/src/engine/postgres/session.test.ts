import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { query, queryAll } from "./query.ts";
import type { Session } from "./session.ts";
import { ServerError } from "./sql-state.ts";
import type { Statement } from "./statements.ts";
import {
  bound,
  complete,
  failure,
  message,
  openSession,
  parsed,
  ready,
  readyInFailed,
} from "./test-session.ts";

const a: Statement = { name: "a", text: "SELECT 1", parameterTypes: [] };
const b: Statement = { name: "b", text: "SELECT 2", parameterTypes: [] };

describe("Session", () => {
  it("parses a statement once, then only binds it", async () => {
    const { session, socket, answer } = openSession();
    const first = query(session, a);
    assert.equal(socket.takeSent(), "P:a B:a E S");
    answer(parsed, bound, complete, ready);
    await first;
    const second = query(session, a);
    assert.equal(socket.takeSent(), "B:a E S");
    answer(bound, complete, ready);
    await second;
  });

  it("parses a statement every time, without a name, when statements may not be prepared", async () => {
    const { session, socket, answer } = openSession(false);
    for (let round = 0; round < 2; round++) {
      const done = query(session, a);
      assert.equal(socket.takeSent(), "P: B: E S");
      answer(parsed, bound, complete, ready);
      await done;
    }
  });

  it("settles pipelined exchanges in the order they were sent", async () => {
    const { session, socket, answer } = openSession();
    const first = query(session, a);
    const second = query(session, b);
    assert.equal(socket.takeSent(), "P:a B:a E S P:b B:b E S");
    let settled = "";
    void first.then(() => {
      settled += "a";
    });
    void second.then(() => {
      settled += "b";
    });
    answer(parsed, bound, complete, ready);
    await first;
    assert.equal(settled, "a");
    answer(parsed, bound, complete, ready);
    await second;
    assert.equal(settled, "ab");
  });

  it("parses again exactly those statements that a failed group had not parsed", async () => {
    const { session, socket, answer } = openSession();
    const group = queryAll(session, [{ statement: a }, { statement: b }]);
    socket.takeSent();
    answer(parsed, bound, failure("40001"), ready);
    await assert.rejects(group, (error) => error instanceof ServerError);
    const again = queryAll(session, [{ statement: a }, { statement: b }]);
    assert.equal(socket.takeSent(), "B:a E P:b B:b E S");
    answer(bound, complete, parsed, bound, complete, ready);
    await again;
  });

  it("uses a new name when the server does not know the old one, and no name after three", async () => {
    const { session, socket, answer } = openSession();
    for (const sent of ["P:a B:a E S", "P:a_1 B:a_1 E S", "P:a_2 B:a_2 E S", "P: B: E S"]) {
      const attempt = query(session, a);
      assert.equal(socket.takeSent(), sent);
      answer(failure("26000"), ready);
      await assert.rejects(attempt);
    }
  });

  it("rolls back a transaction that an error left open before it sends anything else", async () => {
    const { session, socket, answer } = openSession();
    const group = queryAll(session, [{ statement: a }]);
    socket.takeSent();
    answer(parsed, bound, failure("22012"), readyInFailed);
    await assert.rejects(group);
    const next = query(session, a);
    assert.equal(socket.takeSent(), "Q:ROLLBACK B:a E S");
    answer(message("C", "ROLLBACK\0"), ready, bound, complete, ready);
    await next;
  });

  it("fails all exchanges in flight when the connection is lost", async () => {
    const { session, socket } = openSession();
    let lostCount = 0;
    session.onLost = () => lostCount++;
    const both = [query(session, a), query(session, b)];
    session.destroy(new Error("cut"));
    for (const each of both) await assert.rejects(each, /cut/);
    assert.equal(session.isLost, true);
    assert.equal(socket.destroyed, true);
    assert.equal(lostCount, 1);
  });

  it("fails an exchange with the server's reason when the server closes the connection", async () => {
    const { session, answer } = openSession();
    const attempt = query(session, a);
    answer(failure("57P01", "FATAL"));
    await assert.rejects(attempt, (error) => error instanceof ServerError);
    assert.equal(session.isLost, true);
  });

  it("fails an exchange on a lost connection at once, as not sent", async () => {
    const { session } = openSession();
    session.destroy(new Error("cut"));
    const sent = await new Promise<boolean>((resolve) => {
      session.begin({
        deadline: Number.POSITIVE_INFINITY,
        row() {},
        complete() {},
        failed() {},
        ready() {},
        lost: (_error, isSent) => resolve(isSent),
      });
      session.bind(a);
      session.execute();
      session.sync();
    });
    assert.equal(sent, false);
  });

  it("gives up when the server sends bytes that are not messages", async () => {
    const { session, answer } = openSession();
    const attempt = query(session, a);
    answer(Buffer.from("HTTP/1.1 400 Bad Request\r\n"));
    await assert.rejects(attempt, /impossible length/);
  });

  it("gives up on a silent server at the deadline of the exchange", async () => {
    const { session } = openSession();
    const attempt = query(session, a);
    session.giveUpIfOverdue(performance.now());
    assert.equal(session.isLost, false);
    session.giveUpIfOverdue(performance.now() + 60_000);
    await assert.rejects(attempt, /did not answer in time/);
  });

  it("cancels an overdue read, and gives up a second later or when the answer arrives", async () => {
    const read = (session: Session) => {
      const end: string[] = [];
      session.begin({
        deadline: 1_000,
        isRead: true,
        row() {},
        complete() {},
        failed: ({ sqlState }) => void end.push(sqlState),
        ready: () => void end.push(session.isLost ? "ready, lost" : "ready"),
        lost: () => void end.push("lost"),
      });
      session.bind(a);
      session.execute();
      session.sync();
      return () => end.join();
    };
    const silent = openSession();
    const endOfSilent = read(silent.session);
    for (const [now, cancelled, end] of [
      [1_000, 0, ""],
      [1_001, 1, ""],
      [2_001, 1, ""],
      [2_002, 1, "lost"],
    ] as const) {
      silent.session.giveUpIfOverdue(now);
      assert.deepEqual([silent.cancelledCount(), endOfSilent()], [cancelled, end]);
    }

    const stopped = openSession();
    const endOfStopped = read(stopped.session);
    stopped.session.giveUpIfOverdue(1_001);
    stopped.answer(failure("57014"), ready);
    assert.equal(endOfStopped(), "57014,ready, lost");
  });

  it("ignores messages that it did not request", async () => {
    const { session, answer } = openSession();
    const done = query(session, a);
    answer(message("S", "TimeZone\0UTC\0"), message("A", "\0\0\0\x01c\0p\0"), message("n"));
    answer(message("N", "SWARNING\0C01000\0Mhm\0\0"), parsed, bound, complete, ready);
    await done;
  });

  it("is lost when the server sends a fatal error outside an exchange", () => {
    const { session, answer } = openSession();
    answer(failure("57P05", "FATAL"));
    assert.equal(session.isLost, true);
  });
});
