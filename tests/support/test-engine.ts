import type { Clock } from "@rowhouse/server/clock";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";

/**
 * The engine that a test runs over: in memory, or with `TEST_ENGINE=postgres` a database of its own, on the
 * server that `POSTGRES_URL` names or on one that this process starts. Closing the engine removes it.
 */
export async function openTestEngine(options: { clock?: Clock } = {}): Promise<Engine> {
  if (!runsOverPostgres()) return new MemoryEngine(options);
  // Loaded on demand, because it imports a driver and a whole server.
  const { openDatabaseEngine } = await import("./database-engine.ts");
  return openDatabaseEngine(options);
}

/** An engine that finds the data of earlier ones in the same folder: LMDB, or the folder's own database. */
export async function openLastingEngine(path: string): Promise<Engine> {
  if (!runsOverPostgres()) return openLmdbEngine({ path });
  const { databaseOfFolder } = await import("./database-engine.ts");
  const database = await databaseOfFolder(path);
  await database.settled();
  return database.open();
}

export function runsOverPostgres(): boolean {
  return process.env.TEST_ENGINE === "postgres";
}
