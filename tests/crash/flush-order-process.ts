/**
 * The process whose system calls are traced: commits one entry alone and then eight at a time, and prints when
 * each commit begins and when it is acknowledged. `node flush-order-process.ts <folder>`.
 */
import { writeSync } from "node:fs";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";

const engine = await openLmdbEngine({ path: process.argv[2]! });
for (let index = 0; index < 10; index++) await commit(index);
await Promise.all(Array.from({ length: 8 }, (_, index) => commit(10 + index)));
await Promise.all(Array.from({ length: 8 }, (_, index) => commit(18 + index)));
await engine.close();

async function commit(index: number): Promise<void> {
  const key = { partition: Buffer.from("p"), sort: Buffer.from(`${index}`) };
  const write = { checks: [], puts: [{ key, value: Buffer.alloc(3000, index) }], deletes: [] };
  writeSync(1, `begin ${index}\n`);
  await engine.commit({ ...write, version: engine.nextVersion() });
  writeSync(1, `acknowledged ${index}\n`);
}
