import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { CASES } from "./cases.ts";
import { exampleCases } from "./examples.ts";
import type { Target } from "./target.ts";

/**
 * Runs every case against a target, each on an account of its own. A case named in `gaps` must fail, so
 * that an endpoint which learns to do it is noticed.
 */
export function testPatterns(target: Target, gaps: Readonly<Record<string, string>> = {}): void {
  describe(`The patterns against ${target.name}`, () => {
    // Inside the repository, so that an example imports what its readers import.
    const folder = mkdtempSync(fileURLToPath(new URL(".examples-", import.meta.url)));
    after(() => rmSync(folder, { recursive: true, force: true }));
    const cases = [...CASES, ...exampleCases(folder)];
    for (const { name, run } of cases) {
      const gap = gaps[name];
      it(gap === undefined ? name : `${name} (known gap: ${gap})`, async () => {
        const { endpoints, close } = await target.open();
        try {
          if (gap === undefined) await run(endpoints);
          else await assert.rejects(run(endpoints), `${target.name} does it now: ${gap}`);
        } finally {
          await close();
        }
      });
    }
    it("has gaps in cases that exist", () => {
      const names = cases.map(({ name }) => name);
      assert.deepEqual(
        Object.keys(gaps).filter((name) => !names.includes(name)),
        [],
      );
    });
  });
}
