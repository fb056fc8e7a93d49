/**
 * A second process on the same folder, for the tests: executes commands that arrive by IPC, one by one.
 * `fork("test-second-process.ts", [folder, clock in milliseconds])`.
 */
import { readSync } from "node:fs";
import { bytes, getEntry, key, put, text } from "../conformance/steps.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";

const [path = "", milliseconds = ""] = process.argv.slice(2);
const engine = await openLmdbEngine({ path, clock: { now: () => Number(milliseconds) } });

type Command = { put: string } | "get" | "hold" | "show" | "go on" | "close";

process.on("message", async (command: Command) => {
  const at = key("p", "shared");
  if (command === "close") {
    await engine.close();
    process.disconnect();
  } else if (command === "hold") {
    // A transaction that stays open until a byte arrives.
    await engine.update(at, () => {
      readSync(0, Buffer.alloc(1));
      return bytes("held");
    });
    process.send!("let go");
  } else if (command === "show") {
    // A snapshot that stays open.
    await engine.scan({ start: at }, () => {
      process.send!("shown");
      readSync(0, Buffer.alloc(1));
      return true;
    });
  } else if (command === "go on") {
    // Writes until it is killed.
    for (let round = 0; ; round++) await put(engine, at, `${round}`);
  } else if (command === "get") {
    const entry = await getEntry(engine, at);
    process.send!({ value: entry && text(entry.value), version: entry?.version });
  } else {
    process.send!({ version: await put(engine, at, command.put) });
  }
});
process.send!("open");
