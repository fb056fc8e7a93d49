/**
 * Runs on a small disk of its own, for the tests: fills it until nothing more can be added, and checks that
 * writes that delete still succeed, including a removal that leaves a note and a message that moves.
 */
import assert from "node:assert/strict";
import { assertAbove, commit, key, mustCommit, patternBytes, put } from "../conformance/steps.ts";
import { EngineError } from "../engine.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";

const [path = ""] = process.argv.slice(2);
const engine = await openLmdbEngine({ path });
const NOTHING = new Uint8Array(0);

const stored = { large: 0, small: 0 };
for (const [name, bytes] of [
  ["large", 1000],
  ["small", 10],
] as const) {
  // A put that splits no page may still fit.
  for (let refused = 0; refused < 50; ) {
    try {
      await put(engine, key(name, `${stored[name]}`), patternBytes(bytes));
      stored[name]++;
    } catch (error) {
      assert.ok(error instanceof EngineError && error.code === "Unavailable", String(error));
      refused++;
    }
  }
}
assertAbove(stored.large, 1000);

for (let index = 0; index < 200; index++) {
  const at = `${index * 5}`;
  await mustCommit(engine, {
    puts: [[key("notes", at), NOTHING]],
    deletes: [key("large", at)],
  });
}
const result = await engine.commit({
  version: engine.nextVersion(),
  checks: [],
  puts: [{ key: key("notes", "all"), value: NOTHING }],
  deletes: [],
  frees: true,
});
assert.equal(result.committed, true);
// A commit that changes nothing needs no room.
const { committed } = await commit(engine, {
  checks: [{ key: key("notes", "all"), expected: "absent" }],
  puts: [[key("notes", "all"), NOTHING]],
});
assert.equal(committed, false);
await engine.close();
