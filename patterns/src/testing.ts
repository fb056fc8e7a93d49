/** The testing kit: endpoints in memory, faults, crashes, interleavings, and clocks that tests control. */

export type { Layer, PortCall } from "./store/layer.ts";
export { checkedTwice } from "./testing/checked-twice.ts";
export { type CrashOptions, type CrashPoint, crashEverywhere } from "./testing/crash-everywhere.ts";
export { FakeClock, seededRandom } from "./testing/fake-clock.ts";
export { type Fault, intercept, type Ports, withFaults } from "./testing/intercept.ts";
export { type Client, type InterleaveOptions, interleave } from "./testing/interleave.ts";
export { type Memory, type MemoryOptions, memory } from "./testing/memory.ts";
