import { testQueuesPort } from "../ports/queues-conformance.ts";
import { FakeClock } from "./fake-clock.ts";
import { MemoryQueues } from "./memory-queues.ts";

const clock = new FakeClock();
testQueuesPort({
  name: "MemoryQueues",
  open: () => new MemoryQueues(clock),
  pass: (ms) => clock.advance(ms),
});
