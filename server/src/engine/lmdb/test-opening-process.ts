/**
 * A process that opens and closes a folder again and again while others write to it.
 * `fork("test-opening-process.ts", [folder, times])`.
 */
import { openLmdbEngine } from "./lmdb-engine.ts";

const [path = "", times = ""] = process.argv.slice(2);
for (let time = 0; time < Number(times); time++) {
  const engine = await openLmdbEngine({ path });
  await engine.close();
}
