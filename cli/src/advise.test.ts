import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { linesOf } from "./advise.ts";

describe("The lines of a recording", () => {
  it("are complete, also if the file is larger than the chunks it is read in", () => {
    const folder = mkdtempSync(join(tmpdir(), "rowhouse-"));
    try {
      const file = join(folder, "traffic.jsonl");
      // Characters of two and four bytes, some of which cross the end of a chunk of 1 MiB.
      const line = 'é"\u{1f600}'.repeat(17);
      const text = `${line}\n`.repeat(20_000);
      for (const [end, length] of [
        [text, 20_001],
        [`${text}cut off`, 20_001],
        ["", 1],
      ] as const) {
        writeFileSync(file, end);
        const lines = [...linesOf(file, process.stderr)];
        assert.equal(lines.length, length);
        assert.ok(lines.join("\n") === end);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
