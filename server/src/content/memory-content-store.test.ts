import { testContentStoreConformance } from "./conformance.ts";
import { MemoryContentStore } from "./memory-content-store.ts";

testContentStoreConformance({
  name: "MemoryContentStore",
  open: async () => new MemoryContentStore(),
});
