import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { LentBody } from "../../wire/operation.ts";
import { type Answered, CoalescedAnswers } from "./answer-coalescing.ts";

describe("Answers of one event loop turn", () => {
  it("are sent immediately if turns have few", async () => {
    const desk = new Desk();
    for (let turn = 0; turn < 3; turn++) {
      desk.answer("one", "two", "three");
      assert.deepEqual(desk.takeSent(), ["one", "two", "three"]);
      await turnEnd();
    }
  });

  it("are sent together at the end of the turn, in order, after a turn with many", async () => {
    const desk = await Desk.crowded();
    desk.answer("one", "two");
    assert.deepEqual(desk.takeSent(), []);
    await turnEnd();
    assert.deepEqual(desk.takeSent(), ["one", "two"]);
  });

  it("are sent immediately again after a turn with few", async () => {
    const desk = await Desk.crowded();
    desk.answer("one");
    await turnEnd();
    desk.takeSent();
    desk.answer("two");
    assert.deepEqual(desk.takeSent(), ["two"]);
  });

  it("are sent immediately if they are short", async () => {
    const desk = await Desk.crowded();
    desk.body = "short";
    desk.answer("one");
    assert.deepEqual(desk.takeSent(), ["one"]);
  });

  it("do not wait once their total length is too large", async () => {
    const desk = await Desk.crowded();
    desk.body = page(400_000);
    desk.answer("one");
    assert.deepEqual(desk.takeSent(), []);
    desk.answer("two");
    assert.deepEqual(desk.takeSent(), ["one", "two"]);
  });

  it("do not wait longer than a millisecond for slow ones", async () => {
    const desk = await Desk.crowded();
    desk.answer("one");
    desk.now += 1;
    desk.answer("slow");
    assert.deepEqual(desk.takeSent(), ["one", "slow"]);
  });

  it("may be added while others are being sent", async () => {
    const desk = await Desk.crowded();
    desk.whenSent = () => desk.answer("next");
    const names = ["one", "two", "three", "four"];
    desk.answer(...names);
    await turnEnd();
    assert.deepEqual(desk.takeSent(), names);
    await turnEnd();
    assert.deepEqual(desk.takeSent(), ["next"]);
  });
});

/** Answers as connections do, and records what was sent. */
class Desk {
  now = 0;
  body: string | LentBody = page(100_000);
  /** Called once, when the next held answer is sent. */
  whenSent: (() => void) | undefined;
  readonly #gathered = new CoalescedAnswers(() => this.now);
  #sent: string[] = [];

  static async crowded(): Promise<Desk> {
    const desk = new Desk();
    desk.answer("a", "b", "c", "d");
    desk.takeSent();
    await turnEnd();
    return desk;
  }

  answer(...names: string[]): void {
    for (const name of names) {
      const connection: Answered = {
        sendAnswer: () => {
          this.#sent.push(name);
          const { whenSent } = this;
          this.whenSent = undefined;
          whenSent?.();
        },
      };
      const answer = { status: 200, headers: [], body: this.body };
      if (this.#gathered.holdsBack(answer)) this.#gathered.add(connection, answer);
      else this.#sent.push(name);
    }
  }

  takeSent(): string[] {
    const sent = this.#sent;
    this.#sent = [];
    return sent;
  }
}

function page(length: number): LentBody {
  const memory = Buffer.alloc(length);
  return { memory, start: 0, end: length, giveBack() {}, async *[Symbol.asyncIterator]() {} };
}

/** Resolves after everything scheduled for the end of this turn. */
function turnEnd(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
