import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { advise } from "./advise.ts";
import { isTableError } from "./index.ts";

const valueIn = (value: string) => value;
const busy = { reads: 1000, writes: 10 };
const many = (count: number, value: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => value(i));

describe("advice on an index", () => {
  it("is to keep an index whose lookups find few rows of many", async () => {
    const rows = many(5000, (i) => `town${i % 2500}`);
    const advice = await advise(rows, { valueIn, workload: busy });
    assert.equal(advice.verdict, "keep");
    assert.deepEqual(advice.reasons, ["a lookup takes 3 requests, a scan 5"]);
    assert.deepEqual([advice.sampled, advice.distinct, advice.entriesPerValue], [5000, 2500, 2]);
  });

  it("is to drop an index that no query uses, or that has few values", async () => {
    const towns = many(5000, (i) => `town${i}`);
    const unused = await advise(towns, { valueIn, workload: { reads: 0, writes: 5 } });
    assert.deepEqual([unused.verdict, unused.reasons], ["drop", ["no query uses it"]]);
    const genders = many(5000, (i) => "mfx".charAt(i % 3));
    const coarse = await advise(genders, { valueIn, workload: busy });
    assert.equal(coarse.verdict, "drop");
    assert.match(coarse.reasons[0]!, /3 values in 5000 rows/);
  });

  it("is to drop an index whose writes cost more than its lookups save", async () => {
    const rows = many(5000, (i) => `town${i}`);
    const options = { valueIn, isCovering: true };
    const verdict = async (writes: number) =>
      (await advise(rows, { ...options, workload: { reads: 10, writes } })).verdict;
    assert.deepEqual(await Promise.all([39, 40, 41].map(verdict)), ["keep", "keep", "drop"]);
  });

  it("is to leave a value out of the index if scanning for it is cheaper", async () => {
    const rows = many(10_000, (i) => (i % 10 === 0 ? `rare${i}` : "common"));
    const advice = await advise(rows, { valueIn, workload: busy });
    assert.equal(advice.verdict, "sparse");
    assert.deepEqual(advice.commonest, { value: "common", share: 0.9 });
    assert.match(
      advice.reasons[0]!,
      /"common" is in 90 % of the rows: 9009 requests to look up, 10 to scan/,
    );
    const covering = await advise(rows, { valueIn, workload: busy, isCovering: true });
    assert.equal(covering.verdict, "keep");
  });

  it("is to drop an index that would not pay even without its commonest value", async () => {
    const genders = many(10_000, (i) => (i % 10 < 6 ? "m" : "f"));
    const coarse = await advise(genders, { valueIn, workload: busy });
    assert.equal(coarse.verdict, "drop");
    const coarser = many(10_000, (i) => (i % 2 === 0 ? "common" : `group${i % 10}`));
    const advice = await advise(coarser, { valueIn, workload: busy });
    assert.equal(advice.verdict, "drop");
    assert.match(advice.reasons[0]!, /without "common" its writes cost 5 requests .* 1001 each/);
    assert.equal(advice.writesPerRead, 0.01);
    const flags = many(10_000, (i) => (i % 2000 === 0 ? "open" : "closed"));
    assert.equal((await advise(flags, { valueIn, workload: busy })).verdict, "sparse");
  });

  it("stops reading after the sample, and counts each value of a list once", async () => {
    let read = 0;
    async function* rows() {
      for (;;) yield ++read;
    }
    const advice = await advise(rows(), {
      valueIn: (n) => [`a${n}`, `a${n}`, `b${n}`],
      workload: busy,
      sampleMax: 100,
      rowsTotal: 50_000,
    });
    assert.deepEqual(
      [read, advice.sampled, advice.distinct, advice.scanRequests],
      [100, 100, 200, 50],
    );
  });

  it("is given for any rows, even none, and its numbers agree with a count of them", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.option(fc.constantFrom("a", "b", "c"), { nil: undefined })),
        async (rows) => {
          const advice = await advise(rows, { valueIn: (row) => row, workload: busy });
          const values = rows.filter((row) => row !== undefined);
          assert.equal(advice.distinct, new Set(values).size);
          const share = Math.max(
            0,
            ...["a", "b", "c"].map((v) => values.filter((x) => x === v).length),
          );
          assert.ok(Math.abs((advice.commonest?.share ?? 0) * rows.length - share) < 1e-9);
          assert.ok(advice.reasons.length > 0);
        },
      ),
    );
  });

  it("counts values of any type that a key may have, and none where there is none", async () => {
    const given = [7, [7, 8n], true, new Date(0), null, undefined, "7"];
    const { distinct, commonest } = await advise(given, {
      valueIn: (value) => value as number,
      workload: busy,
    });
    assert.deepEqual([distinct, commonest], [4, { value: "7", share: 3 / 7 }]);
  });

  it("refuses a sample size of 0 and negative counts", async () => {
    for (const options of [{ sampleMax: 0 }, { workload: { reads: -1, writes: 0 } }]) {
      await assert.rejects(advise(["a"], { valueIn, workload: busy, ...options }), (error) =>
        isTableError(error, "validation-failed"),
      );
    }
  });
});
