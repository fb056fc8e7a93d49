/**
 * The process that ends, for the tests, with a write transaction that it asked for and that waits to
 * be told what to do. `node test-ending-process.ts <folder> exit|throw`.
 */
import { key, put } from "../conformance/steps.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";

const [path = "", how] = process.argv.slice(2);
const engine = await openLmdbEngine({ path });
void put(engine, key("p", "a"), "never answered");
// By this turn of the event loop the transaction is asked for; in none after it is it told anything.
setImmediate(() => {
  if (how === "exit") process.exit(3);
  throw new Error("thrown where nobody catches it");
});
