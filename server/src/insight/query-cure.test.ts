import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { LIMITS } from "@rowhouse/protocol/limits";
import { planQuery } from "../query/planner.ts";
import type { Cure } from "./cure.ts";
import { cureOfQuery, readingOf, shapeOf } from "./query-cure.ts";

const HASH = "<hash of PartitionKey and RowKey modulo 16, two digits>";

describe("The cure of a query of several partitions", () => {
  it("is an index table found by what is equal, in the order of what is compared", () => {
    check("Email eq 'x'", [
      "TByEmail: PartitionKey = <Email>, RowKey = <PartitionKey>_<RowKey> of T",
      "query: PartitionKey eq '<Email>'",
    ]);
    check("Town eq 'x' and Name eq 'y'", [
      "TByTownAndName: PartitionKey = <Town>, RowKey = <Name>_<PartitionKey>_<RowKey> of T",
      "query: PartitionKey eq '<Town>' and RowKey ge '<Name>_' and RowKey lt '<Name>`'",
    ]);
    check("Open eq true and Town eq 'x' and Age gt 5 and Age le 9", [
      "TByTownAndAge: PartitionKey = <Town>, RowKey = <Age in digits of fixed width>_<PartitionKey>_<RowKey> of T",
      "query: PartitionKey eq '<Town>' and RowKey ge '<from>`' and RowKey lt '<to>`'",
      "filter what it finds by Open eq true: copy that, too",
    ]);
  });

  it("spreads an order of all entities over buckets", () => {
    const asked = "in parallel, merged by row key";
    check("Age ge 5", [
      `TByAge: PartitionKey = ${HASH}, RowKey = <Age in digits of fixed width>_<PartitionKey>_<RowKey> of T`,
      `query: PartitionKey eq '<bucket>' and RowKey ge '<from>', one for each bucket, ${asked}`,
    ]);
    check("RowKey ge 'a' and RowKey lt 'b'", [
      `TByRowKey: PartitionKey = ${HASH}, RowKey = <RowKey>_<PartitionKey> of T`,
      `query: PartitionKey eq '<bucket>' and RowKey ge '<from>' and RowKey lt '<to>', one for each bucket, ${asked}`,
    ]);
  });

  it("keeps apart the few that match where a Boolean is asked for, which is no partition key", () => {
    for (const [filter, index] of [
      ["Open eq false", "TOpenFalse"],
      ["Open ne false", "TOpenTrue"],
      ["Open", "TOpenTrue"],
      ["Status ne 'done'", "TSelected"],
    ] as const) {
      check(filter, [
        `${index}: PartitionKey and RowKey as in T; written while ${filter}, deleted when it does not hold`,
        `query: all of ${index}`,
      ]);
    }
  });

  it("is an index for each property that alternatives ask for, and none for keys", () => {
    check("PartitionKey eq 'a' or Email eq 'x' or RowKey eq 'b'", [
      "TByEmail: PartitionKey = <Email>, RowKey = <PartitionKey>_<RowKey> of T",
      "query: PartitionKey eq '<Email>'",
      "TByRowKey: PartitionKey = <RowKey>, RowKey = <PartitionKey> of T",
      "query: PartitionKey eq '<RowKey>'",
    ]);
    assert.match(
      cureOf("Email eq 'x' or Phone eq 'y'")?.advice ?? "",
      /a query for each alternative/,
    );
  });

  it("is the partition key where row keys are asked for without it", () => {
    for (const filter of [
      "RowKey eq 'a'",
      "RowKey eq 'a' or RowKey eq 'b'",
      "RowKey eq 'a' and Age gt 5",
    ]) {
      assert.equal(cureOf(filter)?.pattern, "point query");
    }
  });

  it("says how keys are spelt", () => {
    assert.match(cureOf("partitionKey eq 'a'")?.advice ?? "", /ask for PartitionKey, not for/);
    for (const filter of ["rowkey eq 'b'", "not (rowkey eq 'b')", "(Age eq 1 or rowkey eq 'b')"]) {
      const { advice } = cureOf(`PartitionKey eq 'a' and ${filter}`) ?? {};
      assert.match(advice ?? "", /ask for RowKey,/, filter);
    }
  });

  it("names tables and writes values as tables and keys may be", () => {
    const layout = cureOf(`home_town${"x".repeat(200)} eq 'a/b'`)?.layout ?? [];
    const [name = ""] = layout[0]?.split(":") ?? [];
    assert.match(name, /^TByHometownx+$/);
    assert.equal(name.length, LIMITS.tableNameLengthMax);
    assert.match(layout.at(-1) ?? "", /^keys: encode what no key may hold/);
  });
});

describe("The cure of a query of one partition", () => {
  it("is a copy beside each entity, found by what is equal, in the order of what is compared", () => {
    check("PartitionKey eq 'p' and Email eq 'x'", [
      "T: PartitionKey as it is, RowKey = email_<Email>_<RowKey>",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'email_<Email>_' and RowKey lt 'email_<Email>`'",
    ]);
    check("PartitionKey eq 'p' and Town eq 'x' and Age lt 5", [
      "T: PartitionKey as it is, RowKey = town_<Town>_<Age in digits of fixed width>_<RowKey>",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'town_<Town>_' and RowKey lt 'town_<Town>_<to>'",
    ]);
    check("PartitionKey eq 'p' and Age gt 5", [
      "T: PartitionKey as it is, RowKey = age_<Age in digits of fixed width>_<RowKey>",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'age_<from>`' and RowKey lt 'age`'",
    ]);
    check("PartitionKey eq 'p' and (Email eq 'x' or Email eq 'y')", [
      "T: PartitionKey as it is, RowKey = email_<Email>_<RowKey>",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'email_<Email>_' and RowKey lt 'email_<Email>`'",
    ]);
  });

  it("leaves to a filter what one order of keys does not answer", () => {
    check("PartitionKey eq 'p' and Age gt 5 and Pay lt 9 and (Email eq 'x' or Town eq 'y')", [
      "T: PartitionKey as it is, RowKey = age_<Age in digits of fixed width>_<RowKey>",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'age_<from>`' and RowKey lt 'age`'",
      "filter what it finds by Pay lt 9 and (Email eq 'x' or Town eq 'y'): copy that, too",
    ]);
    check("PartitionKey eq 'p' and Age eq 5 and Age lt 9", [
      "T: PartitionKey as it is, RowKey = age_<Age>_<RowKey>",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'age_<Age>_' and RowKey lt 'age_<Age>`'",
      "filter what it finds by Age lt 9: copy that, too",
    ]);
  });

  it("copies only what matches where a Boolean is asked for", () => {
    check("PartitionKey eq 'p' and Open eq true", [
      "T: PartitionKey as it is, RowKey = open_true_<RowKey>; written while Open eq true, deleted when it does not hold",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'open_true_' and RowKey lt 'open_true`'",
    ]);
  });

  it("is a time of one's own where the service's is asked for", () => {
    const filter = "PartitionKey eq 'p' and Timestamp gt datetime'2026-01-01T00:00:00Z'";
    assert.equal(cureOf(filter)?.pattern, "log tail");
  });

  it("needs no index for the row keys among alternatives", () => {
    const layout = cureOf("PartitionKey eq 'p' and (RowKey eq 'a' or Age eq 5)")?.layout ?? [];
    assert.deepEqual(
      layout.filter((line) => line.startsWith("T:")),
      ["T: PartitionKey as it is, RowKey = age_<Age>_<RowKey>"],
    );
  });

  it("is nothing for keys alone, nor for all of them but one", () => {
    for (const filter of [
      "PartitionKey eq 'p'",
      "PartitionKey eq 'p' and RowKey eq 'a' and Age gt 5",
      "PartitionKey eq 'p' and RowKey ge 'a'",
      "PartitionKey eq 'p' and RowKey ne 'a'",
      "PartitionKey eq 'p' and not (RowKey eq 'a') and RowKey ne 'b'",
    ]) {
      assert.equal(cureOf(filter), undefined, filter);
    }
  });

  it("is a query for each of several keys", () => {
    for (const filter of [
      "PartitionKey eq 'p' or PartitionKey eq 'q'",
      "PartitionKey eq 'p' and (RowKey eq 'a' or RowKey eq 'b')",
      "PartitionKey eq 'p' and RowKey lt 'a' or PartitionKey eq 'q' and RowKey gt 'a'",
    ]) {
      assert.match(cureOf(filter)?.advice ?? "", /^These are 2 reads here/);
    }
  });
});

describe("The shape of a filter", () => {
  const shape = (filter: string) => shapeOf(parseFilter(filter));

  it("has a mark for each constant", () => {
    assert.equal(
      shape(
        "A eq 'it''s' and B gt -1.5 or C ne true and D lt guid'00000000-0000-0000-0000-000000000000'",
      ),
      "A eq ? and B gt ? or C ne ? and D lt ?",
    );
  });

  it("keeps two of clauses in a row that differ in constants, and all that differ in more", () => {
    assert.equal(shape("A eq 1 or A eq 2 or A eq 3 or A eq 4"), "A eq ? or A eq ?");
    assert.equal(shape("A eq 1 or A ne 2 or A eq 3"), "A eq ? or A ne ? or A eq ?");
    assert.equal(shape("A eq 1 or B eq 2 or C eq 3"), "A eq ? or B eq ? or C eq ?");
    const pairs = "A eq 1 and B eq 2 or A eq 3 and B eq 4 or A eq 5 and B eq 6";
    assert.equal(shape(pairs), "A eq ? and B eq ? or A eq ? and B eq ?");
    const longer = "A eq 1 and B eq 2 or A eq 3 and B eq 4 or A eq 5 and B eq 6 and C eq 7";
    assert.equal(
      shape(longer),
      "A eq ? and B eq ? or A eq ? and B eq ? or A eq ? and B eq ? and C eq ?",
    );
  });
});

describe("The reading of a plan", () => {
  it("tells how many reads it has", () => {
    const reading = (filter: string) => readingOf(planQuery(parseFilter(filter)));
    assert.match(reading("PartitionKey eq 'p'"), /^One whole partition/);
    assert.match(reading("PartitionKey eq 'p' or PartitionKey eq 'q'"), /^2 reads, the dearest /);
  });
});

function cureOf(filter: string): Cure | undefined {
  return cureOfQuery("T", planQuery(parseFilter(filter)));
}

function check(filter: string, layout: readonly string[]): void {
  assert.deepEqual(cureOf(filter)?.layout, layout, filter);
}
