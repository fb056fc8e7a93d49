import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type MutationName,
  SCENARIOS,
  type Scenario,
  simulate,
} from "./index-protocol-simulation.ts";

const seed = Math.floor(Math.random() * 1e9);
const RUNS = 400;
/** Far more than any mutation needs. */
const RUNS_MAX = 20_000;

describe("the protocol of indexes across partitions", () => {
  for (const scenario of SCENARIOS) {
    it(`keeps its invariants in every schedule tried (${scenario}, from seed ${seed})`, async () => {
      await simulate({ scenario, runs: RUNS, seed });
    });
  }

  /** Starting from a seed near the first that fails, to save time; later ones fail as well. */
  const mutations: [MutationName, Scenario, number, RegExp][] = [
    ["base-first", "plain", 1, /has no entry/],
    ["blind-delete", "unique", 1, /has no entry|hold/],
    ["no-settling", "unique", 295, /has no entry|hold/],
    ["clean-up", "plain", 1, /has no entry/],
    ["blind-finish", "plain", 365, /not those of the entities/],
    ["clean-up", "several", 42, /has no entry/],
    ["blind-finish", "several", 5045, /not those of the entities/],
    ["no-deadline", "plain", 19_425, /has no entry|hold/],
  ];
  for (const [mutation, scenario, from, failure] of mutations) {
    it(`violates an invariant when it is altered: ${mutation} (${scenario})`, async () => {
      await assert.rejects(simulate({ scenario, runs: RUNS_MAX, seed: from, mutation }), failure);
    });
  }
});
