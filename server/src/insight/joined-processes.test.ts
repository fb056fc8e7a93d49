import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { joinRecordings } from "./advice/join-recordings.ts";
import { joinReports, type TargetsReport } from "./azure-targets.ts";
import { type LoadPart, reportLoad } from "./partition-load.ts";
import { joinSummaries, type Overrun } from "./scan-budget.ts";
import { readAll, record } from "./test-traffic.ts";

const NO_LOAD = { read: 0, written: 0, scanned: 0 };

function loadPart(part: Partial<LoadPart>): LoadPart {
  return {
    halfLifeSeconds: 60,
    load: 0,
    loadAcrossPartitions: 0,
    unfollowedMax: 0,
    followed: [],
    inserts: [],
    ...part,
  };
}

describe("What several processes counted", () => {
  it("is one load, with what a process may have counted for a partition that it does not follow", () => {
    const a = loadPart({
      load: 100,
      loadAcrossPartitions: 1,
      unfollowedMax: 5,
      followed: [{ partition: "both", load: 60, excess: 2, ...NO_LOAD, read: 1 }],
    });
    const b = loadPart({
      load: 100,
      loadAcrossPartitions: 2,
      followed: [
        { partition: "both", load: 20, excess: 0, ...NO_LOAD, read: 3 },
        { partition: "of b", load: 70, excess: 1, ...NO_LOAD },
      ],
    });
    for (const parts of [
      [a, b],
      [b, a],
    ]) {
      const { load, loadAcrossPartitions, hottest, skew } = reportLoad(parts);
      assert.deepEqual([load, loadAcrossPartitions, skew.first], [200, 3, 0.4]);
      assert.deepEqual(
        hottest.map(({ partition, load, excess, read }) => [partition, load, excess, read]),
        [
          ["both", 80, 2, 4],
          ["of b", 75, 6, 0],
        ],
      );
    }
  });

  it("has an order of inserts only where all agree who saw enough", () => {
    const inserts = (order: "append" | "too few" | "spread") =>
      loadPart({ inserts: [{ table: "a/T", order, examples: [order] }] });
    const orders = (...parts: LoadPart[]) => reportLoad(parts).inserts[0]?.order;
    assert.equal(orders(inserts("append"), inserts("append")), "append");
    assert.equal(orders(inserts("too few"), inserts("append")), "append");
    assert.equal(orders(inserts("append"), inserts("spread")), "spread");
  });

  it("is one summary of the scan budget", () => {
    const overrun: Overrun = {
      ...{
        account: "a",
        table: "T",
        class: "table scan",
        shape: "Age eq ?",
        reason: "no table scan",
      },
      ...{ example: "Age eq 1", plan: "table scan", remedy: "", count: 1, refused: 1 },
      ...{ entitiesRead: 3, entitiesReturned: 0 },
    };
    const other = { ...overrun, shape: "Name eq ?", count: 3 };
    const part = { queries: 5, overBudget: 1, refused: 1, strict: true, overruns: [overrun] };
    const joined = joinSummaries([part, { ...part, overruns: [other, overrun] }]);
    assert.deepEqual([joined.queries, joined.overBudget, joined.refused], [10, 2, 2]);
    assert.deepEqual(
      joined.overruns.map(({ shape, count, entitiesRead }) => [shape, count, entitiesRead]),
      [
        ["Name eq ?", 3, 3],
        ["Age eq ?", 2, 6],
      ],
    );
  });

  it("is one report of the cloud's targets, with places in the order in which throttling began", () => {
    const report = (where: string, firstAt: number): TargetsReport => ({
      mode: "what-if",
      targets: { account: 20_000, partition: 2_000 },
      ...{ requests: 10, entities: 100, throttled: 2 },
      places: [{ where, code: "ServerBusy", firstAt, lastAt: firstAt + 1, count: 2 }],
    });
    const joined = joinReports([report("late", 9), report("early", 1), report("late", 5)]);
    assert.deepEqual([joined.requests, joined.entities, joined.throttled], [30, 300, 6]);
    assert.deepEqual(
      joined.places.map(({ where, firstAt, lastAt, count }) => [where, firstAt, lastAt, count]),
      [
        ["early", 1, 2, 2],
        ["late", 5, 10, 4],
      ],
    );
  });
});

describe("Recordings of several processes", () => {
  it("are one recording, in the order of time", () => {
    const parts = [record(), record(), record()];
    const expected: unknown[] = [];
    for (let i = 0; i < 60; i++) {
      const traffic = parts[(i * i) % 3]!;
      for (const each of parts) each.tick(7);
      const [key, table] = [`p${i % 4}`, i % 5 === 0 ? "U" : "T"];
      if (i % 6 === 5) traffic.write(key, [["insert", `r${i}`, undefined]], table);
      else traffic.query(`PartitionKey eq '${key}'`, { read: i, returned: 1, table });
      expected.push([table, key]);
    }
    parts[0]!.ask(3, { remoteAddress: "::7" });
    parts[1]!.ask(4, { remoteAddress: "::7" });
    const lines = [...joinRecordings(parts.map((each) => each.text().split("\n")))];
    const { events, ...end } = readAll(lines.join("\n"));
    assert.deepEqual(
      events.map(({ table, partitionKey }) => [table, partitionKey]),
      expected,
    );
    const times = events.map(({ at }) => at);
    assert.deepEqual(
      times,
      times.toSorted((a, b) => a - b),
    );
    assert.equal(end.ending, "whole");
    assert.equal(end.clients.find(({ client }) => client === "::7")?.requests, 7);
  });

  it("are cut off if one of them is", () => {
    const [whole, cut] = [record(), record()];
    whole.query("", { read: 1, returned: 1 });
    cut.query("", { read: 1, returned: 1 });
    const killed = cut.text().split("\n").slice(0, 3);
    const { events, ...end } = readAll(
      [...joinRecordings([whole.text().split("\n"), [...killed, '["q",1']])].join("\n"),
    );
    assert.deepEqual([events.length, end.ending], [2, "cut off"]);
  });

  it("are refused if one of them is damaged, or something else", () => {
    const text = record().text().split("\n");
    const join = (...lines: readonly string[]) => [...joinRecordings([text, lines])];
    assert.throws(() => join("text"), /Recording 2 does not have format 5\./);
    assert.throws(() => join(text[0]!, "[", "[]"), /Line 2 of recording 2 is damaged\./);
  });
});
