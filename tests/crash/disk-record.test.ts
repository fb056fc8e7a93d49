import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { DiskRecord } from "./disk-record.ts";

describe("A record of what a process does to a folder", () => {
  const scratch = mkdtempSync(join(tmpdir(), "rowhouse-record-"));
  after(() => rmSync(scratch, { recursive: true }));

  it("knows the file behind a number that another thread gave back while it was opened", () => {
    const hex = (text: string) =>
      [...Buffer.from(text)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
    const open = (name: string) => `openat(AT_FDCWD, "${hex(`/data/${name}`)}", O_WRONLY|O_CREAT`;
    const trace = [
      `1 ${open("first")}, 0600) = 30`,
      `2 ${open("second")} <unfinished ...>`,
      "1 close(30) = 0",
      "2 <... openat resumed>, 0600) = 30",
      `2 write(30, "${hex("bytes")}", 5) = 5`,
      "",
    ].join("\n");
    const before = join(scratch, "before");
    mkdirSync(before);
    const target = join(scratch, "target");
    DiskRecord.read(trace, "/data", before).layOut(target, Number.POSITIVE_INFINITY, "everything");
    assert.equal(readFileSync(join(target, "first"), "utf8"), "");
    assert.equal(readFileSync(join(target, "second"), "utf8"), "bytes");
  });
});
