/** Runs where a new store lacks something it needs, for the tests: checks that opening reports it. */
import assert from "node:assert/strict";
import { openLmdbEngine } from "./lmdb-engine.ts";

const [path = "", why = ""] = process.argv.slice(2);
await assert.rejects(openLmdbEngine({ path }), {
  code: "Unavailable",
  message: new RegExp(`^open ${path}: ${why}`),
});
