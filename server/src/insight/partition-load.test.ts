import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { explain } from "../query/explain.ts";
import { planQuery } from "../query/planner.ts";
import { drawHeatMap, HeatMap } from "./heat-map.ts";
import { InsertOrder } from "./insert-order.ts";
import { keysRead } from "./insight.ts";
import { PartitionLoad } from "./partition-load.ts";
import { ScanCounts } from "./scan-counts.ts";

describe("The load of partitions", () => {
  it("reports entities read, written and scanned by partition, and the skew", () => {
    const { load, query, write } = watch();
    for (let i = 0; i < 9; i++) query("PartitionKey eq 'hot' and Age gt 1", 100, 10);
    write("cold", 100);
    const report = load.report();
    assert.deepEqual(
      report.hottest.map(({ partition, share }) => [partition, share]),
      [
        ["a/T/hot", 0.9],
        ["a/T/cold", 0.1],
      ],
    );
    const [hot] = report.hottest;
    assert.equal(Math.round(hot!.scanned / hot!.read), 10);
    assert.deepEqual(report.skew, { first: 0.9, firstTen: 1 });
  });

  it("counts queries of several partitions separately", () => {
    const { load, query } = watch();
    query("Age gt 1", 1000, 1);
    assert.equal(load.report().hottest.length, 0);
    assert.ok(load.report().loadAcrossPartitions > 11);
  });

  it("keeps decaying after the clock is set back", () => {
    const { load, query } = watch();
    for (const at of [3_600_000, 1000 - 60_000]) {
      query("Age gt 1", 1000, 1, at);
      query("PartitionKey eq 'p'", 1000, 1, at);
    }
    // Both were counted a half-life ago: half of 2,000 entities, as 60 s / ln 2 of a steady stream would have
    // left.
    const { load: ofPartitions, loadAcrossPartitions } = load.report();
    assert.deepEqual([ofPartitions, loadAcrossPartitions], [11.55, 11.55]);
    assert.equal(load.heatMap().columns.length, 1);
  });

  it("reports that new partition keys are appended", () => {
    const { load, write } = watch();
    for (let i = 0; i < 100; i++) write(`2026-11-20T${String(i).padStart(4, "0")}`, 1);
    assert.equal(load.report().inserts[0]!.order, "append");
  });

  it("tracks the inserts of 256 tables, and replaces idle ones", () => {
    const { load, write } = watch();
    const followed = () => load.report().inserts.map(({ table }) => table);
    for (let i = 0; i < 300; i++) write("p", 1, { table: `T${i}` });
    assert.equal(followed().length, 256);
    write("p", 1, { table: "T0", at: 500_000 });
    write("p", 1, { table: "New", at: 590_000 });
    assert.ok(!followed().includes("a/New"));
    write("p", 1, { table: "New", at: 610_000 });
    assert.deepEqual(followed(), ["a/T0", "a/New"]);
  });
});

describe("The order of inserts", () => {
  const order = (keys: readonly string[], at = 0) => {
    const inserts = new InsertOrder();
    for (const key of keys) inserts.add(key, at);
    return inserts.verdict;
  };
  const ascending = Array.from({ length: 128 }, (_, i) => String(i).padStart(6, "0"));

  it("is one partition where all entities go to one, and not spread", () => {
    assert.equal(order(new Array(128).fill("p")), "one partition");
    assert.equal(order([...new Array(64).fill("p"), ...new Array(64).fill("q")]), "spread");
  });

  it("has each example key once", () => {
    const inserts = new InsertOrder();
    const at = Date.UTC(2026, 10, 28);
    for (let i = 0; i < 128; i++) {
      const hour = at + i * 3_600_000;
      inserts.add(new Date(hour).toISOString().slice(0, 13), hour);
    }
    assert.equal(new Set(inserts.examples).size, inserts.examples.length);
  });

  it("is append for ascending keys, even if some are out of order", () => {
    const swapped = [...ascending];
    for (let i = 0; i + 1 < swapped.length; i += 16) {
      [swapped[i], swapped[i + 1]] = [swapped[i + 1]!, swapped[i]!];
    }
    assert.equal(order(swapped), "append");
  });

  it("is prepend for descending keys", () => {
    assert.equal(order(ascending.toReversed()), "prepend");
  });

  it("is spread for ascending keys behind a bucket, and one partition where there is no other", () => {
    assert.equal(order(ascending.map((key, i) => `${(i * 7) % 16}-${key}`)), "spread");
    assert.equal(order(ascending.map(() => "one")), "one partition");
  });

  it("is spread for keys that ascend through the same partitions repeatedly", () => {
    const rounds = Array.from({ length: 10 }, () => ascending).flat();
    assert.equal(order(rounds), "spread");
  });

  it("is append for ascending keys with a few entities each, such as orders and their lines", () => {
    const lines = (count: number) => ascending.flatMap((key) => Array<string>(count).fill(key));
    assert.equal(order(lines(6)), "append");
    assert.equal(order(lines(6).toReversed()), "prepend");
    // Tenants that are filled one after the other.
    assert.equal(order(lines(50)), "spread");
    const few = Array.from({ length: 640 }, (_, i) => `p${(i * 7919) % 5}`);
    assert.equal(order(few), "spread");
  });

  it("is append if the partition key is the current month, day or time, however many entities share it", () => {
    const at = Date.UTC(2026, 10, 23, 13, 45);
    const ticks = (BigInt(at) + 62_135_596_800_000n) * 10_000n;
    const many = (...keys: string[]) =>
      order(
        Array.from({ length: 200 }, (_, i) => keys[i % keys.length]!),
        at,
      );
    for (const key of [
      ...["2026-11-23", "2026-11-23T13:45", "20261123", "2026112313", "202611", "2026-11"],
      ...["logs_20261122", `${at / 1000}`, `${at}`, `${ticks}`],
    ]) {
      assert.equal(many(key), "append", key);
    }
    assert.equal(many(`${3_155_378_975_999_999_999n - ticks}`), "prepend");
    for (const key of [
      "2026-11-20",
      "2025-11-23",
      "20261320",
      "202612",
      "123456",
      "tenant-000017",
    ]) {
      assert.equal(many(key), "one partition", key);
    }
    assert.equal(many("00_20261123", "07_20261123"), "spread");
    assert.equal(many("20261123", "sales", "support"), "spread");
  });

  it("is spread for the current day behind prefixes that follow one another", () => {
    const at = Date.UTC(2026, 10, 23);
    const tenants = ["a_20261123", "b_20261123", "c_20261123"];
    assert.equal(
      order(
        tenants.flatMap((key) => Array<string>(200).fill(key)),
        at,
      ),
      "spread",
    );
  });

  it("is not judged before 64 inserts", () => {
    assert.equal(order(ascending.slice(0, 63)), "too few");
  });
});

describe("The heat map", () => {
  it("of several processes adds what each counted in the same ten seconds", () => {
    const maps = ["a", "b", "b"].map((name, i) => {
      const heat = new HeatMap({ slotMs: 1000, random: evenly() });
      heat.add(name, 10, i === 2 ? 1500 : 300);
      return heat.part(1500);
    });
    const { columns, rows, cells } = drawHeatMap(maps, 8);
    assert.deepEqual({ columns, rows }, { columns: [0, 1000], rows: ["a", "b"] });
    assert.deepEqual(cells, [
      [10, 0],
      [10, 10],
    ]);
  });

  it("reports the exact total of each slot, divided among ranges by the sample", () => {
    const heat = new HeatMap({ slotMs: 1000, slotsMax: 2, random: evenly() });
    for (let second = 0; second < 3; second++) {
      for (let i = 0; i < 1000; i++)
        heat.add(i % 4 === 0 ? "a" : "b", 2, second * 1000 + (i % 900));
    }
    const { columns, rows, cells } = drawHeatMap([heat.part(2999)], 8);
    assert.deepEqual(columns, [1000, 2000]);
    assert.deepEqual(rows, ["a", "b"]);
    assert.equal(cells[0]![1]! + cells[1]![1]!, 2000);
    assert.ok(Math.abs(cells[0]![1]! / 2000 - 0.25) < 0.1);
  });

  it("loses nothing of a total when it rounds the shares", () => {
    const heat = new HeatMap({ random: evenly() });
    for (let i = 0; i < 1007; i++) heat.add(`p${(i * 7919) % 53}`, 1, 0);
    for (const rows of [1, 7, 32]) {
      const { cells } = drawHeatMap([heat.part(0)], rows);
      assert.equal(
        cells.reduce((sum, [cell]) => sum + cell!, 0),
        1007,
      );
    }
  });

  it("drops slots that are too old, also if no requests arrive", () => {
    const heat = new HeatMap({ slotMs: 1000, slotsMax: 2 });
    heat.add("a", 1, 500);
    assert.deepEqual(drawHeatMap([heat.part(1999)], 8).columns, [0]);
    assert.deepEqual(drawHeatMap([heat.part(2000)], 8).columns, []);
  });

  it("gives a scan its weight among a few requests, whether it comes first or last", () => {
    for (const at of [0, 50]) {
      const heat = new HeatMap({ random: evenly() });
      for (let i = 0; i < 51; i++) heat.add(i === at ? "scanned" : "asked", i === at ? 950 : 1, 0);
      const { rows, cells } = drawHeatMap([heat.part(0)], 2);
      assert.deepEqual(rows, ["asked", "scanned"]);
      assert.ok(Math.abs(cells[1]![0]! - 950) < 90, `${cells[1]![0]} of 1000`);
    }
  });
});

describe("The history of the heat map", () => {
  const DAY = 86_400_000;
  const { load, query, write } = watch();

  it("keeps twelve days, the older the coarser, and every entity of them", () => {
    for (let at = 0; at < 3 * DAY; at += 120_000) write("p", 5, { at });
    query("PartitionKey eq 'p' and Age gt 1", 40, 1, 3 * DAY - 1);
    query("Age gt 1", 70, 1, 3 * DAY - 1);
    const { written, read, scanned } = load.heatHistory("a");
    const sum = written.reduce((all, { entities }) => all + entities[0]![1], 0);
    assert.equal(sum, (5 * 3 * DAY) / 120_000);
    const lengths = [...new Set(written.map(({ begin, end }) => end - begin))];
    assert.ok(lengths.length >= 4 && written.length < 340, `${written.length}: ${lengths}`);
    for (const [i, { begin }] of written.entries())
      assert.ok(i === 0 || written[i - 1]!.end <= begin, "no two overlap");
    assert.deepEqual(
      read.map(({ entities }) => entities),
      [[["T/p", 40]]],
    );
    assert.deepEqual(
      scanned.map(({ entities }) => entities),
      [[["T", 70]]],
    );
    for (let at = 3 * DAY; at < 20 * DAY; at += 600_000) write("p", 1, { at });
    const oldest = load.heatHistory("a").written[0]!.begin;
    assert.ok(oldest > 4 * DAY && oldest < 9 * DAY, `${oldest / DAY} days`);
  });

  it("shows an account nothing of another", () => {
    const nothing = { read: [], written: [], scanned: [], scans: [] };
    assert.deepEqual(load.heatHistory("b"), nothing);
    assert.deepEqual(load.heatHistory(""), nothing);
  });
});

describe("Scans", () => {
  const HOUR = 3_600_000;

  it("are queries of ranges of partitions or of the table, each once, whatever its pages", () => {
    const { load, query } = watch();
    for (const at of [0, 600_000, HOUR]) query("Age gt 1", 1000, 1, at);
    query("PartitionKey gt 'a' and Age gt 1", 10, 1, HOUR);
    query("Age gt 1", 1000, 1, HOUR, { continued: true });
    for (const none of [
      "PartitionKey eq 'p' and Age gt 1",
      "PartitionKey eq 'p' and RowKey eq 'r'",
      "(PartitionKey eq 'p' and RowKey eq 'r') or (PartitionKey eq 'q' and RowKey eq 'r')",
      "PartitionKey gt 'b' and PartitionKey lt 'a'",
    ])
      query(none, 1, 1, HOUR);
    assert.deepEqual(load.heatHistory("a").scans, [
      { begin: 0, end: HOUR / 4, queries: [["T", 2]] },
      { begin: HOUR, end: 1.25 * HOUR, queries: [["T", 2]] },
    ]);
  });

  it("are kept for 25 hours, of up to 256 tables at a time, and not after the clock was set back", () => {
    const scans = new ScanCounts();
    for (let at = 0; at < 60 * HOUR; at += 300_000) scans.add("a/T", at);
    const [first] = scans.history("a/");
    assert.deepEqual([first!.begin, first!.queries], [34.75 * HOUR, [["T", 3]]]);
    for (let i = 0; i < 300; i++) scans.add(`b/T${i}`, 61 * HOUR);
    assert.equal(scans.history("b/")[0]!.queries.length, 256);
    scans.add("a/T", HOUR);
    assert.deepEqual(scans.history(""), [{ begin: HOUR, end: 1.25 * HOUR, queries: [["a/T", 1]] }]);
  });
});

/** Evenly spread numbers from 0 to 1, the same on every run. */
function evenly(): () => number {
  let turn = 0;
  return () => {
    turn += 0.618;
    return turn % 1;
  };
}

function watch() {
  const load = new PartitionLoad({ now: () => 1000 });
  const client = "::1";
  return {
    load,
    query(
      filter: string,
      entitiesRead: number,
      entitiesReturned: number,
      at = 1000,
      { continued = false } = {},
    ) {
      const plan = planQuery(parseFilter(filter));
      const facts = {
        at,
        account: "a",
        table: "T",
        plan,
        planText: explain(plan),
        filter,
        client,
        ...keysRead(plan),
      };
      const cost = { entitiesRead, entitiesReturned, bytesRead: 0, engineMicros: 0 };
      load.queried({ ...facts, projected: false, continued, class: plan.class }, cost);
    },
    write(partitionKey: string, count: number, { at = 1000, table = "T" } = {}) {
      const mutation = { kind: "insert", rowKey: "r", ifMatch: undefined } as const;
      const mutations = new Array<typeof mutation>(count).fill(mutation);
      load.admitWrite({ at, account: "a", table, partitionKey, mutations, client });
    },
  };
}
