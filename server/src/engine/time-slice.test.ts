import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { TimeSlice, timeInTurn } from "./time-slice.ts";

/** Longer than one piece of work may take. */
const PIECE_MS = 15;

describe("Long work", () => {
  it("that comes all at once is done in many turns of the event loop, first come first served", async () => {
    const pieces: { readonly name: number; readonly turn: number }[] = [];
    const turns = countTurns();
    const piece = async (name: number) => {
      const wait = timeInTurn();
      if (wait) await wait;
      work();
      pieces.push({ name, turn: turns.count });
    };
    await Promise.all(Array.from({ length: 20 }, (_, name) => piece(name)));
    turns.end();
    assert.deepEqual(
      pieces.map(({ name }) => name),
      Array.from({ length: 20 }, (_, name) => name),
    );
    const inTurn = new Map<number, number>();
    for (const { turn } of pieces) inTurn.set(turn, (inTurn.get(turn) ?? 0) + 1);
    assert.ok(Math.max(...inTurn.values()) <= 4, `pieces in each turn: ${[...inTurn.values()]}`);
  });

  it("that takes several slices has one in each turn, and takes turns with other work", async () => {
    const order: string[] = [];
    const turns = countTurns();
    const long = async (name: string) => {
      const slice = new TimeSlice();
      for (let i = 0; i < 4; i++) {
        work();
        order.push(`${name} ${turns.count}`);
        if (slice.isSpent()) await slice.nextTurn();
      }
    };
    await Promise.all([long("a"), long("b")]);
    turns.end();
    assert.deepEqual(
      order.map((each) => each[0]),
      ["a", "b", "a", "b", "a", "b", "a", "b"],
    );
    assert.equal(new Set(order).size, order.length, `none twice in a turn: ${order}`);
  });
});

function work(): void {
  const end = performance.now() + PIECE_MS;
  while (performance.now() < end);
}

/** Counts the turns of the event loop until its end. */
function countTurns() {
  const turns = {
    count: 0,
    end() {
      clearImmediate(next);
    },
  };
  const turn = () => {
    turns.count++;
    next = setImmediate(turn);
  };
  let next = setImmediate(turn);
  return turns;
}
