import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { testEngineConformance } from "../conformance.ts";
import type { Engine } from "../engine.ts";
import { LmdbEngine, openLmdbEngine } from "./lmdb-engine.ts";

testEngineConformance({
  name: "LmdbEngine",
  open: ({ clock }) => openLmdbEngine({ path: newFolder(), clock }),
  reopen: (closed, { clock }) => openLmdbEngine({ path: pathOf(closed), clock }),
  discard: async (closed) => rmSync(pathOf(closed), { recursive: true }),
});

function newFolder(): string {
  return mkdtempSync(join(tmpdir(), "rowhouse-lmdb-"));
}

function pathOf(engine: Engine): string {
  if (!(engine instanceof LmdbEngine)) throw new Error("Not an LMDB engine.");
  return engine.path;
}
