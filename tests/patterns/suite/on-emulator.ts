import { after } from "node:test";
import { testBlobsPort } from "../../../patterns/src/ports/blobs-conformance.ts";
import { testTablesPort } from "../../../patterns/src/ports/tables-conformance.ts";
import { Emulator } from "./emulator.ts";
import { type Gaps, itBut, testPatterns } from "./pattern-suite.ts";

/** What the emulator does differently, by the case that shows it. Every other case must pass. */
const GAPS: Gaps = {
  "a failing message is retried, then moved to the poison queue":
    "its clock cannot be moved, so the message stays hidden",
  "a unique value across partitions belongs to one entity, and is free again once released and settled":
    "its clock cannot be moved, so nothing settles",
  "a scrub finds and repairs exactly the damaged entries":
    "its clock cannot be moved, so every row is too young to judge",
  "a condition on a small partition compares NaN as the endpoint does":
    "it compares NaN as if the property were absent, so even 2 is not unequal to NaN",
  "the manual's example of warnings": "it does not tell how many entities it read for a query",
};

const TABLE_GAPS: Gaps = {
  "filters by doubles of every size": "it finds no infinite ones",
  "refuses a transaction over two partitions, with a row twice, or of 101 mutations":
    "it commits some transactions that the service refuses; the library checks them before sending",
};

const BLOB_GAPS: Gaps = {
  "returns a part of a blob": "it answers a range that begins behind the end",
};

const emulator = await Emulator.start();
after(() => emulator.stop());

testPatterns(emulator, GAPS);
testTablesPort({
  name: emulator.name,
  open: async () => (await emulator.open()).endpoints.tables,
  it: itBut(TABLE_GAPS),
});
testBlobsPort({
  name: emulator.name,
  open: async () => (await emulator.open()).endpoints.blobs,
  it: itBut(BLOB_GAPS),
});
