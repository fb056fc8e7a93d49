import type { Clock } from "@rowhouse/server/clock";
import type { Engine } from "@rowhouse/server/engine/engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";

/**
 * The engine that a test runs over: in memory, or with `TEST_ENGINE=postgres` a database of its own on
 * the server that `POSTGRES_URL` names, gone when the engine is closed.
 */
export async function openTestEngine(options: { clock?: Clock } = {}): Promise<Engine> {
  if (!runsOverPostgres()) return new MemoryEngine(options);
  // Loaded when it is asked for: it brings a driver and a whole server.
  const { openDatabaseEngine } = await import("./database-engine.ts");
  return openDatabaseEngine(options);
}

export function runsOverPostgres(): boolean {
  return process.env.TEST_ENGINE === "postgres";
}
