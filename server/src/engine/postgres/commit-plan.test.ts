import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AtomicWrite, Check } from "../engine.ts";
import { planCommit } from "./commit-plan.ts";

/** A commit in the words of a key and what happens to it: "p/a put absent", "p/b delete 5". */
function write(...steps: string[]): AtomicWrite {
  const checks: Check[] = [];
  const puts: { key: ReturnType<typeof keyOf>; value: Uint8Array }[] = [];
  const deletes: ReturnType<typeof keyOf>[] = [];
  for (const step of steps) {
    const [name = "", ...words] = step.split(" ");
    const key = keyOf(name);
    for (const word of words) {
      if (word === "put") puts.push({ key, value: Buffer.from(name) });
      else if (word === "delete") deletes.push(key);
      else if (word === "absent" || word === "present") checks.push({ key, expected: word });
      else checks.push({ key, expected: Number(word) });
    }
  }
  return { version: 1, checks, puts, deletes };
}

function keyOf(name: string) {
  const [partition = "", sort = ""] = name.split("/");
  return { partition: Buffer.from(partition), sort: Buffer.from(sort) };
}

/** The plan's statements, one word each with its keys. */
function plan(...steps: string[]): string[] {
  const { partitions, isContradictory } = planCommit(write(...steps));
  if (isContradictory) return ["contradiction"];
  const lines: string[] = [];
  const add = (verb: string, keys: readonly { sort: Buffer }[]) => {
    if (keys.length > 0) lines.push(`${verb} ${keys.map(({ sort }) => sort).join(" ")}`);
  };
  for (const { partition, locks, checked, inserts, deletes } of partitions) {
    lines.push(`in ${partition}`);
    for (const { strength, keys } of locks) add(`lock ${strength}`, keys);
    add("assert", checked);
    for (const { mustBeAbsent, keys } of inserts) add(mustBeAbsent ? "insert" : "upsert", keys);
    add("delete", deletes);
  }
  return lines;
}

describe("planCommit", () => {
  it("sorts keys and partitions by their bytes, not in the order of the caller", () => {
    assert.deepEqual(plan("b/2 put", "a/9 put", "b/10 put"), [
      "in a",
      "lock written 9",
      "upsert 9",
      "in b",
      "lock written 10 2",
      "upsert 10 2",
    ]);
  });

  it("claims a key that must be absent, and takes the claim back when it is not put", () => {
    assert.deepEqual(plan("p/a absent", "p/b put"), [
      "in p",
      "lock written a b",
      "insert a",
      "upsert b",
      "delete a",
    ]);
    assert.deepEqual(plan("p/a absent put", "p/b absent put").slice(2), ["insert a b"]);
  });

  it("inserts in key order however claims and puts mix", () => {
    // Two commits that claim each other's key must meet at the same key first.
    assert.deepEqual(plan("p/a absent", "p/b put").slice(2), ["insert a", "upsert b", "delete a"]);
    assert.deepEqual(plan("p/b absent", "p/a put").slice(2), ["upsert a", "insert b", "delete b"]);
  });

  it("locks what is only checked no stronger than the check needs, in key order", () => {
    assert.deepEqual(plan("p/a present", "p/b 5", "p/c put", "p/d present"), [
      "in p",
      "lock present a",
      "lock checked b",
      "lock written c",
      "lock present d",
      "assert a b d",
      "upsert c",
    ]);
  });

  it("takes the strongest lock for all when runs would be too many", () => {
    const steps = ["a", "b", "c", "d", "e", "f"].map((sort, index) =>
      index % 2 === 0 ? `p/${sort} present` : `p/${sort} put`,
    );
    assert.equal(plan(...steps)[1], "lock written a b c d e f");
  });

  it("groups inserts and upserts when runs would be too many", () => {
    const sorts = Array.from({ length: 10 }, (_, index) => `${index}`);
    const steps = sorts.map((sort, index) => `p/${sort} put${index % 2 === 0 ? " absent" : ""}`);
    assert.deepEqual(plan(...steps).slice(2), ["insert 0 2 4 6 8", "upsert 1 3 5 7 9"]);
  });

  it("asserts what must be there, whatever becomes of it", () => {
    assert.deepEqual(plan("p/a 5 delete", "p/b present put"), [
      "in p",
      "lock written a b",
      "assert a b",
      "upsert b",
      "delete a",
    ]);
  });

  it("takes the stricter of two checks of one key, and finds those that contradict each other", () => {
    assert.deepEqual(plan("p/a present 5 put", "p/b put")[2], "assert a");
    assert.deepEqual(plan("p/a 5 present"), plan("p/a 5"));
    assert.deepEqual(plan("p/a absent present"), ["contradiction"]);
    assert.deepEqual(plan("p/a 5 6"), ["contradiction"]);
    assert.deepEqual(plan("p/a 5 absent"), ["contradiction"]);
  });

  it("tells keys apart whose bytes run together", () => {
    const { partitions } = planCommit(write("ab/c put", "a/bc put"));
    assert.deepEqual(
      partitions.map(({ partition }) => `${partition}`),
      ["a", "ab"],
    );
  });
});
