/** The testing kit: endpoints in memory, faults, clocks that a test moves. */

export type { Layer, PortCall } from "./store/layer.ts";
export { FakeClock, seededRandom } from "./testing/fake-clock.ts";
export { type Fault, intercept, type Ports, withFaults } from "./testing/intercept.ts";
export { type Memory, type MemoryOptions, memory } from "./testing/memory.ts";
