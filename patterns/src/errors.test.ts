import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";

describe("The manual's page of the library's errors", () => {
  it("has a row for every code, and for no other", () => {
    const source = readFileSync(new URL("./errors.ts", import.meta.url), "utf8");
    const page = readFileSync(
      new URL("../../docs/manual/patterns/errors.md", import.meta.url),
      "utf8",
    );
    const [payloads = ""] = /interface TableErrorPayloads \{.*?^\}/ms.exec(source) ?? [];
    const codes = Array.from(payloads.matchAll(/^ {2}"?([a-z-]+)"?: \{/gm), ([, code]) => code);
    const rows = Array.from(page.matchAll(/^\| `([a-z-]+)` \|/gm), ([, code]) => code);
    assert.ok(codes.length > 10);
    assert.deepEqual(rows.sort(), codes.sort());
  });
});
