import assert from "node:assert/strict";
import { it } from "node:test";
import { loadsOf } from "./tables-load.ts";

it("The load of tables is of the last minute, with its hottest partition, and scans are of today", () => {
  const now = new Date(2026, 10, 28, 12).getTime();
  const slot = (ago: number, entities: readonly (readonly [string, number])[]) => ({
    ...{ begin: now - ago, end: now - ago + 10_000, entities },
  });
  const loads = loadsOf(
    [
      {
        read: [
          slot(3_600_000, [["A/old", 9999]]),
          slot(30_000, [
            ["A/p", 300],
            ["A/q/r", 60],
          ]),
        ],
        written: [
          slot(30_000, [
            ["A/p", 180],
            ["B/", 60],
          ]),
        ],
        scanned: [
          slot(30_000, [["A", 60]]),
          slot(3_600_000, [["C", 500]]),
          slot(86_400_000, [["C", 7]]),
        ],
        scans: [
          { begin: now - 900_000, end: now, queries: [["C", 2]] },
          { begin: now - 86_400_000, end: now - 85_500_000, queries: [["C", 9]] },
        ],
      },
      // Of another process.
      {
        ...{ read: [], written: [], scanned: [] },
        scans: [{ begin: now - 900_000, end: now, queries: [["C", 1]] }],
      },
    ],
    now,
  );
  assert.deepEqual(
    [...loads].sort(([a], [b]) => (a < b ? -1 : 1)),
    [
      [
        "A",
        { rate: 10, scansToday: 0, scannedToday: 60, hottest: { partitionKey: "p", share: 0.8 } },
      ],
      ["B", { rate: 1, scansToday: 0, scannedToday: 0, hottest: { partitionKey: "", share: 1 } }],
      ["C", { rate: 0, scansToday: 3, scannedToday: 500, hottest: undefined }],
    ],
  );
});
