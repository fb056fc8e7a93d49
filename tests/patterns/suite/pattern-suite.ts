import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { CASES } from "./cases.ts";
import { exampleCases } from "./examples.ts";
import type { Target } from "./target.ts";

/** Case → what the endpoint does otherwise. */
export type Gaps = Readonly<Record<string, string>>;

/** A test; one that is named in `gaps` must fail, so that an endpoint which learns to do it is noticed. */
export function itBut(gaps: Gaps): (name: string, work: () => Promise<void>) => void {
  return (name, work) => {
    const gap = gaps[name];
    if (gap === undefined) it(name, work);
    else it(`${name} (known gap: ${gap})`, () => assert.rejects(work, `done now: ${gap}`));
  };
}

/** Runs every case against a target, each on an account of its own. */
export function testPatterns(target: Target, gaps: Gaps = {}): void {
  describe(`The patterns against ${target.name}`, () => {
    // Inside the repository, so that an example imports what its readers import.
    const folder = mkdtempSync(fileURLToPath(new URL(".examples-", import.meta.url)));
    after(() => rmSync(folder, { recursive: true, force: true }));
    const cases = [...CASES, ...exampleCases(folder)];
    const declare = itBut(gaps);
    for (const { name, run } of cases) {
      declare(name, async () => {
        const { endpoints, close } = await target.open();
        try {
          await run(endpoints);
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
