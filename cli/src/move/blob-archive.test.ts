import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startRowhouse } from "../testing.ts";
import { BlobArchive } from "./blob-archive.ts";

describe("An archive of backups at a Blob endpoint", () => {
  it("tells how much of all files is stored, and how much has arrived", async () => {
    const folder = mkdtempSync(join(tmpdir(), "rowhouse-archive-"));
    const server = await startRowhouse({ services: ["blob"] });
    try {
      // Two blocks, and one.
      const sizes = { "data.mdb": (8 << 20) + 1, "contents/a/a1": 100 };
      mkdirSync(join(folder, "contents/a"), { recursive: true });
      for (const [name, size] of Object.entries(sizes))
        writeFileSync(join(folder, name), Buffer.alloc(size, 7));
      const archive = await BlobArchive.connect(
        server.connectionString,
        new AbortController().signal,
      );
      const stored: number[] = [];
      const parts: number[] = [];
      const name = "rowhouse-20260101T000000Z";
      const total = await archive.upload(folder, name, (bytes, done) => {
        stored.push(bytes);
        parts.push(done);
      });
      assert.deepEqual(
        stored.toSorted((a, b) => a - b),
        [1, 100, 8 << 20],
      );
      assert.equal(total, (8 << 20) + 101);
      assert.deepEqual(
        parts,
        parts.toSorted((a, b) => a - b),
      );
      assert.equal(parts.at(-1), 1);
      let arrived = 0;
      await archive.download(name, join(folder, "back"), (bytes) => {
        arrived += bytes;
      });
      assert.equal(arrived, total);
    } finally {
      await server.close();
      rmSync(folder, { recursive: true });
    }
  });
});
