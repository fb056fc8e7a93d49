import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { CASES } from "./cases.ts";
import { exampleCases } from "./examples.ts";
import type { Target } from "./target.ts";

/** Case → what the endpoint does differently. */
export type Gaps = Readonly<Record<string, string>>;

/** A test. One that is named in `gaps` must fail, so that an endpoint that closes the gap is noticed. */
export function itBut(gaps: Gaps): (name: string, work: () => Promise<void>) => void {
  return (name, work) => {
    const gap = gaps[name];
    if (gap === undefined) it(name, work);
    else it(`${name} (known gap: ${gap})`, () => assert.rejects(work, `done now: ${gap}`));
  };
}

/** Runs every case against a target, each on its own account. */
export function testPatterns(target: Target, gaps: Gaps = {}): void {
  describe(`The patterns against ${target.name}`, () => {
    // Inside the repository, so that an example can import what its readers import.
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
    it("has gaps only in existing cases", () => {
      const names = cases.map(({ name }) => name);
      assert.deepEqual(
        Object.keys(gaps).filter((name) => !names.includes(name)),
        [],
      );
    });
  });
}
