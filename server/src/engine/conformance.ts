import { describe } from "node:test";
import { systemClock } from "../clock.ts";
import { testChecks } from "./conformance/checks.ts";
import { testClose } from "./conformance/close.ts";
import { testConcurrency } from "./conformance/concurrency.ts";
import { testGetAndCommit } from "./conformance/get-and-commit.ts";
import { testLimits } from "./conformance/limits.ts";
import { testScans } from "./conformance/scans.ts";
import type { EngineUnderTest, WithEngine } from "./conformance/steps.ts";
import { testSupports } from "./conformance/supports.ts";
import { testUpdates } from "./conformance/updates.ts";
import { testVersions } from "./conformance/versions.ts";

/** Checks every promise `engine.ts` makes. Each engine's test file is one call of this. */
export function testEngineConformance(target: EngineUnderTest): void {
  const withEngine: WithEngine = async (test) => {
    const engine = await target.open({ clock: systemClock });
    try {
      await test(engine);
    } finally {
      await engine.close();
      await target.discard?.(engine);
    }
  };

  describe(`${target.name} fulfills the engine contract`, () => {
    describe("supports", () => testSupports(withEngine));
    describe("get and commit", () => testGetAndCommit(withEngine));
    describe("checks", () => testChecks(withEngine));
    describe("update", () => testUpdates(withEngine));
    describe("versions", () => testVersions(withEngine));
    describe("limits", () => testLimits(withEngine));
    describe("scan", () => testScans(withEngine));
    describe("concurrency", () => testConcurrency(withEngine));
    describe("close", () => testClose(target, withEngine));
  });
}
