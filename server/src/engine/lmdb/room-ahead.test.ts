import assert from "node:assert/strict";
import { appendFileSync, statSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { assertAbove, getText, key, patternBytes, put, scanAll } from "../conformance-steps.ts";
import { DATA_FILE, freeBytes, PAGE_BYTES } from "./data-file.ts";
import type { LmdbEngine } from "./lmdb-engine.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";
import { MemoryMap } from "./memory-map.ts";
import { withEngine } from "./test-engine.ts";

const ROOM_BYTES = 128 * PAGE_BYTES;

// A small disk has none, nor have other systems.
const isMade = process.platform === "linux" && freeBytes(tmpdir()) > 2 ** 31;

if (isMade) {
  describe("the room ahead", () => {
    it("is there before anything is written into it, however the file grows", () =>
      withEngine(async (engine) => {
        await put(engine, key("p", "first"), "1");
        for (let index = 0; index < 40; index++) {
          const before = fileBytes(engine);
          await put(engine, key("p", [index]), patternBytes(100_000));
          assertAbove(before + 1, usedBytes(engine));
          assertAbove(usedBytes(engine) + 2 * ROOM_BYTES, fileBytes(engine) - 1);
        }
      }));

    it("is made once, and not for what is written in pages used before", () =>
      withEngine(async (engine) => {
        const rewrite = async () => {
          for (let index = 0; index < 10; index++) await put(engine, key("p", "a"), `${index}`);
        };
        await rewrite();
        const before = fileBytes(engine);
        await rewrite();
        assert.equal(fileBytes(engine), before);
      }));

    it("may be cut off, longer than others made it, or no whole number of pages", () =>
      withEngine(async (engine) => {
        await put(engine, key("p", "a"), "1");
        const { path } = engine;
        const changes: ((used: number) => void)[] = [
          (used) => truncateSync(join(path, DATA_FILE), used),
          () => appendFileSync(join(path, DATA_FILE), patternBytes(5 * ROOM_BYTES)),
          () => appendFileSync(join(path, DATA_FILE), patternBytes(1000)),
        ];
        for (const [index, change] of changes.entries()) {
          const used = usedBytes(engine);
          await engine.close();
          change(used);
          engine = await openLmdbEngine({ path });
          await put(engine, key("p", [index]), patternBytes(2 * ROOM_BYTES));
          assert.equal(await getText(engine, key("p", "a")), "1");
          assert.equal((await scanAll(engine)).length, index + 2);
        }
        await engine.close();
      }));
  });
}

function fileBytes({ path }: LmdbEngine): number {
  return statSync(join(path, DATA_FILE)).size;
}

function usedBytes({ path }: LmdbEngine): number {
  const map = MemoryMap.of(path);
  assert.ok(map);
  return map.pagesUsed() * PAGE_BYTES;
}
