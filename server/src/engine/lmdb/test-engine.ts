/** Engines over folders of their own, for the tests of this folder. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EngineError } from "../engine.ts";
import { type LmdbEngine, type LmdbEngineOptions, openLmdbEngine } from "./lmdb-engine.ts";

export async function withEngine(
  test: (engine: LmdbEngine) => Promise<void>,
  options: Partial<LmdbEngineOptions> = {},
): Promise<void> {
  const engine = await openLmdbEngine({ path: newFolder(), ...options });
  try {
    await test(engine);
  } finally {
    await engine.close();
    rmSync(engine.path, { recursive: true });
  }
}

export function isEngineError(code: string): (error: unknown) => boolean {
  return (error) => error instanceof EngineError && error.code === code;
}

export function newFolder(): string {
  return mkdtempSync(join(tmpdir(), "rowhouse-lmdb-"));
}
