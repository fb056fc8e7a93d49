/**
 * A process for the tests that ends while a write transaction that it requested waits for its call to return.
 * `node test-ending-process.ts <folder> exit|throw`.
 */
import { key, put } from "../conformance/steps.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";

const [path = "", how] = process.argv.slice(2);
const engine = await openLmdbEngine({ path });
void put(engine, key("p", "a"), "never answered");
// By this turn of the event loop the transaction is requested; no later turn answers its call.
setImmediate(() => {
  if (how === "exit") process.exit(3);
  throw new Error("thrown where nobody catches it");
});
