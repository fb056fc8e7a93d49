/**
 * Another process on the same folder, for the tests: answers commands that come by IPC, one by one.
 * `fork("second-process.ts", [folder, clock in milliseconds])`.
 */
import { getEntry, key, put, text } from "../conformance-steps.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";

const [path = "", milliseconds = ""] = process.argv.slice(2);
const engine = await openLmdbEngine({ path, clock: { now: () => Number(milliseconds) } });

process.on("message", async (command: { put: string } | "get" | "close") => {
  const at = key("p", "shared");
  if (command === "close") {
    await engine.close();
    process.disconnect();
  } else if (command === "get") {
    const entry = await getEntry(engine, at);
    process.send!({ value: entry && text(entry.value), version: entry?.version });
  } else {
    process.send!({ version: await put(engine, at, command.put) });
  }
});
process.send!("open");
