import { testEngineConformance } from "./conformance.ts";
import { MemoryEngine } from "./memory-engine.ts";

testEngineConformance({
  name: "MemoryEngine",
  open: async ({ clock }) => new MemoryEngine({ clock }),
});
