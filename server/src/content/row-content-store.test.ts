import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type LmdbEngine, openLmdbEngine } from "../engine/lmdb/lmdb-engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { testContentStoreConformance } from "./conformance.ts";
import { RowContentStore } from "./row-content-store.ts";

const SPACE = 0x34;

testContentStoreConformance({
  name: "RowContentStore over the memory engine",
  open: async () => new RowContentStore(new MemoryEngine(), SPACE),
});

const engines = new WeakMap<object, LmdbEngine>();

testContentStoreConformance({
  name: "RowContentStore over the LMDB engine",
  open: async () => {
    const engine = await openLmdbEngine({ path: mkdtempSync(join(tmpdir(), "rowhouse-rows-")) });
    const store = new RowContentStore(engine, SPACE);
    engines.set(store, engine);
    return store;
  },
  discard: async (closed) => {
    const engine = engines.get(closed)!;
    await engine.close();
    rmSync(engine.path, { recursive: true });
  },
});
