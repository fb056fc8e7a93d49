/** Runs where files cannot grow to what a new store needs, for the tests: checks that it is told. */
import assert from "node:assert/strict";
import { openLmdbEngine } from "./lmdb-engine.ts";

const [path = ""] = process.argv.slice(2);
await assert.rejects(openLmdbEngine({ path }), {
  code: "Unavailable",
  message: `open ${path}: EFBIG: file too large, write`,
});
