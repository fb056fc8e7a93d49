/**
 * Runs where files cannot grow beyond some megabytes, or on a disk of that size, for the tests: fills the
 * store until commits are refused, and checks that refused writes are absent and all others present.
 */
import assert from "node:assert/strict";
import { assertAbove, commit, getText, key, put, scanAll, text } from "../conformance/steps.ts";
import { EngineError } from "../engine.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";

const [path = ""] = process.argv.slice(2);
const clock = { at: Date.now(), now: () => clock.at };
const engine = await openLmdbEngine({ path, clock });
const padding = "x".repeat(100_000);
const expected: string[] = [];
let refused = 0;

for (let index = 0; index < 60; index++) {
  const name = `${index}`.padStart(2, "0");
  const puts = [
    [key("p", `${name}a`), `${name}a${padding}`],
    [key("p", `${name}b`), `${name}b${padding}`],
  ] as const;
  // Later than all versions reserved before.
  clock.at += 1000;
  try {
    await commit(engine, { puts });
    expected.push(`${name}a`, `${name}b`);
  } catch (error) {
    assert.ok(error instanceof EngineError && error.code === "Unavailable", String(error));
    refused++;
  }
}
assertAbove(refused, 0);
assertAbove(expected.length, 0);
assert.deepEqual(
  (await scanAll(engine)).map(({ value }) => text(value).slice(0, 3)),
  expected,
);

// Deleting frees room.
await commit(engine, { deletes: [key("p", "00a"), key("p", "00b")] });
const version = await put(engine, key("p", "small"), "fits");
// The refused commits reserved no versions.
assertAbove(engine.meta().versionsReserved, version);
assert.equal(await getText(engine, key("p", "small")), "fits");

// A commit that will never fit fails neither those that wait with it nor those that follow.
const outcomes = await Promise.allSettled([
  commit(engine, { deletes: [key("p", "small")] }),
  put(engine, key("p", "large"), "x".repeat(10_000_000)),
  put(engine, key("p", "beside"), "fits"),
]);
assert.deepEqual(
  outcomes.map(({ status }) => status),
  ["fulfilled", "rejected", "fulfilled"],
);
assert.equal(await getText(engine, key("p", "small")), undefined);
assert.equal(await getText(engine, key("p", "large")), undefined);
assert.equal(await getText(engine, key("p", "beside")), "fits");
await engine.close();
