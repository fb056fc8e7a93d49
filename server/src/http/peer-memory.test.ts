import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { Holding, PeerMemory, type PeerReport } from "./peer-memory.ts";

/** Of the room in these tests; one account or address may have half of it. */
const ROOM = 1_000_000;
const SWEEPS_PER_SECOND = 2;

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

describe("Memory that clients make a server hold", () => {
  const room = () => {
    const time = { now: 0 };
    const reports: PeerReport[] = [];
    const memory = new PeerMemory({
      bytesMax: ROOM,
      sweeps: false,
      now: () => time.now,
      onReport: (report) => reports.push(report),
    });
    const cut: string[] = [];
    const peer = (account: string, remoteAddress: string) => {
      const connection = {
        account,
        remoteAddress,
        isGone: false,
        destroy() {
          connection.isGone = true;
          cut.push(`${account}@${remoteAddress}`);
        },
      };
      return new Holding(memory, connection);
    };
    /** One that has sent this much of a body, and is waited for. */
    const sender = (account: string, address: string, bytes: number) => {
      const holding = peer(account, address);
      holding.reserve(bytes);
      holding.waitsFor = "body";
      return holding;
    };
    const pass = (seconds: number, each = () => {}) => {
      for (let i = 0; i < seconds * SWEEPS_PER_SECOND; i++) {
        each();
        time.now += 1000 / SWEEPS_PER_SECOND;
        memory.sweep();
      }
    };
    return { memory, cut, peer, sender, pass, reports };
  };
  const BUSY = (error: unknown) => error instanceof ServiceError && error.code === "ServerBusy";

  it("is counted until the request is answered and the answer read", () => {
    const { memory, peer } = room();
    const holding = peer("a", "1");
    holding.reserve(100);
    holding.reserve(200);
    assert.equal(memory.bytes, 300);
    holding.release();
    holding.answer(5_000);
    assert.equal(memory.bytes, 5_000);
    holding.read();
    assert.equal(memory.bytes, 0);
  });

  it("is refused to one account and to one address when half of it is theirs, and left to others", () => {
    const { memory, peer } = room();
    peer("a", "1").reserve(ROOM / 2);
    assert.throws(() => peer("a", "2").reserve(1), BUSY);
    assert.throws(() => peer("b", "1").reserve(1), BUSY);
    peer("b", "2").reserve(ROOM / 2);
    assert.throws(() => peer("c", "3").reserve(1), BUSY);
    assert.equal(memory.bytes, ROOM);
    assert.equal(memory.counts.refused, 3);
  });

  it("is shared by all addresses of one network of version 6", () => {
    const { peer } = room();
    peer("a", "2001:db8::1").reserve(ROOM / 2);
    assert.throws(() => peer("b", "2001:db8:0:0:ffff::2").reserve(1), BUSY);
    peer("b", "2001:db8:0:1::1").reserve(1);
  });

  it("moves to the account as soon as the caller is known", () => {
    const { memory } = room();
    const peer = { account: "", remoteAddress: "1", isGone: false, destroy() {} };
    const unknown = new Holding(memory, peer);
    unknown.reserve(ROOM / 4);
    peer.account = "a";
    unknown.reserve(ROOM / 4);
    const other = new Holding(memory, {
      account: "a",
      remoteAddress: "2",
      isGone: false,
      destroy() {},
    });
    assert.throws(() => other.reserve(1), BUSY);
    new Holding(memory, { account: "", remoteAddress: "2", isGone: false, destroy() {} }).reserve(
      ROOM / 2,
    );
  });

  it("is taken from the slowest that the server waits for, and from no more than needed", () => {
    const { cut, peer, sender, pass } = room();
    const slow = sender("a", "1", 300_000);
    const slowest = sender("b", "2", 300_000);
    const fast = sender("c", "3", 300_000);
    peer("d", "4").reserve(100_000);
    pass(10, () => {
      slow.moved(2_000);
      slowest.moved(1_000);
      fast.moved(200_000);
    });
    peer("e", "5").reserve(300_000);
    assert.deepEqual(cut, ["b@2"]);
    peer("f", "6").reserve(100_000);
    assert.deepEqual(cut, ["b@2", "a@1"]);
    peer("f", "6").reserve(200_000);
    // Who is left is fast, or waits for the server.
    assert.throws(() => peer("g", "7").reserve(100_000), BUSY);
    assert.equal(cut.length, 2);
  });

  it("is taken from nobody who has just come", () => {
    const { cut, peer, sender } = room();
    sender("a", "1", 500_000);
    sender("b", "2", 500_000);
    assert.throws(() => peer("c", "3").reserve(1), BUSY);
    assert.deepEqual(cut, []);
  });

  it("is taken from the account or address that has too much, not from slower others", () => {
    const { cut, peer, sender, pass } = room();
    sender("b", "2", 100_000);
    const slow = sender("a", "1", 500_000);
    pass(10, () => slow.moved(2_000));
    peer("a", "3").reserve(200_000);
    assert.deepEqual(cut, ["a@1"]);
  });

  it("is taken from unread answers that are far too many, however new they are", () => {
    const { memory, cut, peer } = room();
    for (let i = 0; i < 10; i++) peer(`account ${i}`, `${i}`).answer(300_000);
    assert.ok(memory.bytes <= 1.5 * ROOM, `${memory.bytes}`);
    assert.ok(cut.length > 0 && cut.length < 10);
  });

  it("is not counted again for a connection that was cut, while its answer is still being read", async () => {
    const { memory, peer } = room();
    const holding = peer("a", "1");
    let read = 0;
    async function* store() {
      for (; read < 10; read++) yield new Uint8Array(100);
    }
    const parts = holding.pouring(store());
    await parts.next();
    assert.equal(memory.bytes, 200);
    holding.cut();
    assert.deepEqual(await parts.next(), { done: true, value: undefined });
    assert.equal(memory.bytes, 0);
    assert.equal(read, 1);
  });

  it("is waited for by answers in parts, of which nothing is read before, until slow readers were cut for them", async () => {
    const { memory, cut, peer, pass } = room();
    const begun: string[] = [];
    const reader = (account: string) => {
      async function* store() {
        begun.push(account);
        for (;;) yield new Uint8Array(ROOM / 32);
      }
      return peer(account, account).pouring(store());
    };
    const some = Array.from({ length: 20 }, (_, i) => reader(`${i}`));
    for (const parts of some) void parts.next();
    await turns(20);
    const first = begun.length;
    assert.equal(first, 15);
    // What they leave is for bodies.
    const sender = peer("sender", "sender");
    sender.reserve(ROOM / 16);
    sender.end();
    // Nobody is cut who has just come; then, those that take nothing.
    assert.deepEqual(cut, []);
    for (let i = 0; i < 20; i++) {
      pass(1);
      await turns(20);
    }
    assert.deepEqual(
      begun,
      some.map((_, i) => `${i}`),
    );
    assert.deepEqual(cut, ["0@0", "1@1", "2@2", "3@3", "4@4"]);
    assert.ok(memory.bytes <= ROOM, `${memory.bytes}`);
  });

  it("is not waited for by a connection that has gone, for which nothing is read", async () => {
    const { memory, peer, pass } = room();
    peer("a", "1").reserve(ROOM / 2);
    const gone = peer("a", "2");
    let isRead = false;
    const parts = gone.pouring(
      (async function* () {
        isRead = true;
        yield new Uint8Array(1);
      })(),
    );
    const first = parts.next();
    gone.cut();
    pass(1);
    assert.equal((await first).done, true);
    assert.equal(isRead, false);
    assert.equal(memory.bytes, ROOM / 2);
  });

  for (const [what, seconds] of [
    ["body", 30],
    ["reader", 120],
  ] as const) {
    it(`belongs to a connection that ends when its ${what} is slower than the minimum for ${seconds} s`, () => {
      const { memory, cut, peer, pass } = room();
      const [slow, steady] = [peer("a", "1"), peer("a", "2")];
      for (const each of [slow, steady]) each.waitsFor = what;
      const halfSecond = LIMITS.bytesPerSecondMin / SWEEPS_PER_SECOND;
      pass(seconds - 1, () => {
        slow.moved(halfSecond - 1);
        steady.moved(halfSecond);
      });
      assert.deepEqual(cut, []);
      pass(1, () => {
        slow.moved(halfSecond - 1);
        steady.moved(halfSecond);
      });
      assert.deepEqual(cut, ["a@1"]);
      assert.equal(memory.counts.cutForRate, 1);
      steady.end();
    });
  }

  it("is left to quick senders of a server that closes, and taken from slow ones at once", () => {
    const { memory, cut, sender, pass } = room();
    sender("slow", "1", 100);
    const quick = sender("quick", "2", 100);
    pass(3, () => quick.moved(100_000));
    sender("new", "3", 100);
    memory.cutSlowBodies();
    assert.deepEqual(cut, ["slow@1"]);
    assert.equal(memory.bytes, 200);
  });

  it("does not count the time that the server itself takes", () => {
    const { cut, sender, pass } = room();
    const holding = sender("a", "1", 100);
    pass(29);
    holding.waitsFor = undefined;
    pass(100);
    holding.waitsFor = "body";
    pass(29);
    assert.deepEqual(cut, []);
    pass(1);
    assert.deepEqual(cut, ["a@1"]);
  });

  it("is reported once a minute at most, and only if somebody was cut or refused", () => {
    const { reports, sender, peer, pass } = room();
    sender("a", "1", 500_000);
    pass(61);
    assert.deepEqual(reports, [{ bytes: 0, cutForRoom: 0, cutForRate: 1, refused: 0 }]);
    peer("b", "1").reserve(ROOM / 2);
    for (let i = 0; i < 3; i++) assert.throws(() => peer("c", "1").reserve(1), BUSY);
    pass(58);
    assert.equal(reports.length, 1);
    pass(120);
    assert.deepEqual(reports.slice(1), [
      { bytes: ROOM / 2, cutForRoom: 0, cutForRate: 0, refused: 3 },
    ]);
  });
});
