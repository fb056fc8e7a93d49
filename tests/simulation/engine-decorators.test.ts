import { MortalEngine } from "@rowhouse/server/blob/test-unsteady-stores";
import { testEngineConformance } from "@rowhouse/server/engine/conformance";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import { decorated } from "@rowhouse/server/engine/test-decorated";
import { LosingEngine } from "@rowhouse/server/engine/test-losing-engine";
import { FaultyEngine } from "../support/faulty-engine.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { unsteady } from "./unsteady-engine.ts";

/*
 * An engine that a test spoils on demand is an engine like any other until then: otherwise the test would prove
 * something about an engine that nobody runs.
 */

testEngineConformance({
  name: "An engine that fails on demand",
  open: async ({ clock }) => new FaultyEngine({ clock }),
});

testEngineConformance({
  name: "An engine that loses commits on demand",
  open: async ({ clock }) => new LosingEngine({ clock }),
});

testEngineConformance({
  name: "An engine whose process is killed on demand",
  open: async ({ clock }) => new MortalEngine({ clock }),
});

testEngineConformance({
  name: "An engine that answers late",
  open: async ({ clock }) =>
    unsteady(new MemoryEngine({ clock }), seededRandom(1), { refusals: 0 }),
});

testEngineConformance({
  name: "An engine with members of the caller's own",
  open: async ({ clock }) => decorated(new MemoryEngine({ clock }), {}),
});
