import { testBlobsPort } from "../ports/blobs-conformance.ts";
import { FakeClock } from "./fake-clock.ts";
import { MemoryBlobs } from "./memory-blobs.ts";

testBlobsPort({ name: "MemoryBlobs", open: () => new MemoryBlobs({ clock: new FakeClock() }) });
