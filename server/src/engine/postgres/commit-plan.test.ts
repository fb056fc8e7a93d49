import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AtomicWrite, Check, Key } from "../engine.ts";
import { planCommit, type SeenVersions } from "./commit-plan.ts";
import { identify } from "./get.ts";

/** A commit described by its keys and what happens to them: "p/a put absent", "p/b delete 5". */
function write(...steps: string[]): AtomicWrite {
  const checks: Check[] = [];
  const puts: { key: Key; value: Uint8Array }[] = [];
  const deletes: Key[] = [];
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

function keyOf(name: string): Key {
  const [partition = "", sort = ""] = name.split("/");
  return { partition: Buffer.from(partition), sort: Buffer.from(sort) };
}

/** The result of a read: for each key, written "p/a", its version or undefined. */
function seen(found: Readonly<Record<string, number | undefined>>): SeenVersions {
  const entries = Object.entries(found).map(([name, version]) => {
    const { partition, sort } = keyOf(name);
    return [identify(partition, sort), version] as const;
  });
  return new Map(entries);
}

function plan(...steps: string[]): string[] {
  return describePlan(write(...steps));
}

/** The plan's statements in words, with their keys. */
function describePlan(planned: AtomicWrite, known?: SeenVersions): string[] {
  const { partitions, isContradictory } = planCommit(planned, known);
  if (isContradictory) return ["contradiction"];
  const lines: string[] = [];
  const add = (verb: string, keys: readonly { sort: Buffer }[]) => {
    if (keys.length > 0) lines.push(`${verb}: ${keys.map(({ sort }) => sort).join(" ")}`);
  };
  for (const { partition, runs, updates, deletes } of partitions) {
    lines.push(`in ${partition}`);
    for (const { hold, keys } of runs) add(hold, keys);
    add("update", updates);
    add("delete", deletes);
  }
  return lines;
}

describe("planCommit", () => {
  it("sorts partitions and keys by their bytes, whatever the caller's order", () => {
    assert.deepEqual(plan("b/2 put", "a/9 put", "b/10 put"), [
      "in a",
      "put: 9",
      "in b",
      "put: 10 2",
    ]);
  });

  it("claims a key that must be absent, and deletes the claim if the key is not put", () => {
    assert.deepEqual(plan("p/a absent", "p/b put"), ["in p", "claim: a", "put: b", "delete: a"]);
    assert.deepEqual(plan("p/a absent put", "p/b absent put"), ["in p", "claim: a b"]);
  });

  it("locks in key order, whatever the mix of lock kinds", () => {
    // Two commits that each forbid the other's key must meet at the same key first.
    assert.deepEqual(plan("p/a absent", "p/b put").slice(1, 3), ["claim: a", "put: b"]);
    assert.deepEqual(plan("p/b absent", "p/a put").slice(1, 3), ["put: a", "claim: b"]);
  });

  it("locks a key that is only checked no more strongly than the check needs", () => {
    assert.deepEqual(plan("p/a present", "p/b 5", "p/c present put", "p/d present"), [
      "in p",
      "share present: a",
      "share: b",
      "own: c",
      "share present: d",
      "update: c",
    ]);
  });

  it("locks kind by kind when there would be too many runs", () => {
    const sorts = Array.from({ length: 10 }, (_, index) => `${index}`);
    const steps = sorts.map((sort, index) => `p/${sort} put${index % 2 === 0 ? " absent" : ""}`);
    assert.deepEqual(plan(...steps), ["in p", "claim: 0 2 4 6 8", "put: 1 3 5 7 9"]);
  });

  it("locks checked rows before it changes them", () => {
    assert.deepEqual(plan("p/a 5 delete", "p/b present put"), [
      "in p",
      "own: a b",
      "update: b",
      "delete: a",
    ]);
  });

  it("assumes that a deleted row exists, until a read shows otherwise", () => {
    const deletion = write("p/a delete", "p/b delete");
    assert.deepEqual(describePlan(deletion), ["in p", "own: a b", "delete: a b"]);
    const known = seen({ "p/a": undefined, "p/b": 7 });
    assert.deepEqual(describePlan(deletion, known), ["in p", "claim: a", "own: b", "delete: a b"]);
  });

  it("applies the stricter of two checks of one key, and detects contradictory ones", () => {
    assert.deepEqual(plan("p/a 5 present"), ["in p", "share: a"]);
    assert.deepEqual(plan("p/a present 5"), ["in p", "share: a"]);
    assert.deepEqual(plan("p/a absent present"), ["contradiction"]);
    assert.deepEqual(plan("p/a 5 6"), ["contradiction"]);
    assert.deepEqual(plan("p/a 5 absent"), ["contradiction"]);
  });

  it("distinguishes keys whose concatenated bytes are the same", () => {
    const { partitions } = planCommit(write("ab/c put", "a/bc put"));
    assert.deepEqual(
      partitions.map(({ partition }) => `${partition}`),
      ["a", "ab"],
    );
  });
});
