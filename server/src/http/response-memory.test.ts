import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ResponseMemory } from "./response-memory.ts";

describe("Answers that are not read", () => {
  const begin = () => {
    const time = { now: 0 };
    const unread = new ResponseMemory(100, () => time.now);
    const cut: string[] = [];
    const answer = (name: string) => ({ destroy: () => cut.push(name) });
    return { time, unread, cut, answer };
  };

  it("are cut, the oldest first, until the others have room", () => {
    const { time, unread, cut, answer } = begin();
    for (const name of ["a", "b", "c"]) unread.add(answer(name), 30);
    time.now = 5000;
    unread.add(answer("d"), 60);
    assert.deepEqual(cut, ["a", "b"]);
    assert.equal(unread.bytes, 90);
  });

  it("are given some seconds, however many they are", () => {
    const { time, unread, cut, answer } = begin();
    unread.add(answer("a"), 300);
    time.now = 4999;
    unread.add(answer("b"), 300);
    assert.deepEqual([cut, unread.bytes], [[], 600]);
  });

  it("no longer count once they are read, and count once", () => {
    const { time, unread, cut, answer } = begin();
    const [a, b] = [answer("a"), answer("b")];
    unread.add(a, 90);
    unread.remove(a);
    unread.remove(a);
    unread.add(b, 50);
    time.now = 4000;
    unread.add(b, 90);
    time.now = 8000;
    unread.add(answer("c"), 90);
    assert.deepEqual([cut, unread.bytes], [[], 180]);
  });
});
