import type { Clock } from "@rowhouse/server/clock";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";

/**
 * The engine that a test runs over: in memory, or with `TEST_ENGINE=postgres` a database of its own on
 * the server that `POSTGRES_URL` names, or one of this process. It is gone when the engine is closed.
 */
export async function openTestEngine(options: { clock?: Clock } = {}): Promise<Engine> {
  if (!runsOverPostgres()) return new MemoryEngine(options);
  // Loaded when it is asked for: it brings a driver and a whole server.
  const { openDatabaseEngine } = await import("./database-engine.ts");
  return openDatabaseEngine(options);
}

/** One that finds what others in the same folder left: on LMDB, or in the folder's own database. */
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
