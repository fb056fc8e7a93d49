import { after } from "node:test";
import { testBlobsPort } from "@rowhouse/patterns/ports/blobs-conformance";
import { testTablesPort } from "@rowhouse/patterns/ports/tables-conformance";
import { Emulator } from "./emulator.ts";
import { type Gaps, itBut, testPatterns } from "./pattern-suite.ts";

/** What the emulator does otherwise, beside the case that shows it. Nothing else is left out. */
const GAPS: Gaps = {
  "a message that fails comes back, and goes to the poison queue in the end":
    "its clock cannot be moved, so the message stays hidden",
  "a value across partitions belongs to one entity, and to the next one when it has settled":
    "its clock cannot be moved, so nothing settles",
  "a scrub finds and mends exactly what was broken":
    "its clock cannot be moved, so every row is too young to judge",
  "the manual's example of warnings": "it does not tell how many entities it read for a query",
};

const TABLE_GAPS: Gaps = {
  "filters by doubles of every size": "it finds no infinite ones",
  "refuses a transaction over two partitions, with a row twice, or of 101 mutations":
    "it commits some transactions that the service refuses; the library checks them before sending",
};

const BLOB_GAPS: Gaps = {
  "gives a part of a blob": "it answers a range that begins behind the end",
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
