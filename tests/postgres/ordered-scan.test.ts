import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { scanInOrder } from "./ordered-scan.ts";

const ENTITIES = 20_000;
/** A second's garbage at most; holding the table would take 20 MB, and several times that as JSON. */
const GROWTH_KB_MAX = 60_000;

describe("A front end over PostgreSQL", () => {
  it(`lists ${ENTITIES} entities of several partitions in order without holding them in memory`, async () => {
    const { memoryKb, pages } = await scanInOrder(ENTITIES, () => {});
    assert.ok(pages >= ENTITIES / 1000, `${pages} pages`);
    // The first pages compile the code of the others.
    const [begin, end] = [memoryKb.slice(5, 10), memoryKb.slice(-5)];
    const growthKb = Math.min(...end) - Math.max(...begin);
    assert.ok(growthKb < GROWTH_KB_MAX, `grew by ${growthKb} KiB: ${memoryKb}`);
  });
});
