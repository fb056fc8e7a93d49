import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { LIMITS } from "@rowhouse/protocol/limits";
import { planQuery } from "../query/planner.ts";
import { readingOf, remedyOfQuery, shapeOf } from "./query-remedy.ts";
import type { Remedy } from "./remedy.ts";

const HASH = "<hash of PartitionKey and RowKey modulo 16, two digits>";

describe("The remedy for a query of several partitions", () => {
  it("is an index table keyed by the properties tested for equality, ordered by the property with a range", () => {
    check("Email eq 'x'", [
      "TByEmail: PartitionKey = <Email>, RowKey = <PartitionKey>_<RowKey> of T",
      "query: PartitionKey eq '<Email>'",
    ]);
    check("Town eq 'x' and Name eq 'y'", [
      "TByTownAndName: PartitionKey = <Town>, RowKey = <Name>_<PartitionKey>_<RowKey> of T",
      "query: PartitionKey eq '<Town>' and RowKey ge '<Name>_' and RowKey lt '<Name>`'",
    ]);
    check("Open eq true and Town eq 'x' and Age gt 5 and Age le 9", [
      "TByTownAndAge: PartitionKey = <Town>, RowKey = <Age as fixed-width digits>_<PartitionKey>_<RowKey> of T",
      "query: PartitionKey eq '<Town>' and RowKey ge '<from>`' and RowKey lt '<to>`'",
      "then filter the results by Open eq true: copy those properties, too",
    ]);
  });

  it("spreads an index over buckets if the query has only a range", () => {
    const asked = "in parallel, merged by row key";
    check("Age ge 5", [
      `TByAge: PartitionKey = ${HASH}, RowKey = <Age as fixed-width digits>_<PartitionKey>_<RowKey> of T`,
      `query: PartitionKey eq '<bucket>' and RowKey ge '<from>', one query per bucket, ${asked}`,
    ]);
    check("RowKey ge 'a' and RowKey lt 'b'", [
      `TByRowKey: PartitionKey = ${HASH}, RowKey = <RowKey>_<PartitionKey> of T`,
      `query: PartitionKey eq '<bucket>' and RowKey ge '<from>' and RowKey lt '<to>', one query per bucket, ${asked}`,
    ]);
  });

  it("is a table of only the matches for a Boolean or ne condition, which makes a poor partition key", () => {
    for (const [filter, index] of [
      ["Open eq false", "TOpenFalse"],
      ["Open ne false", "TOpenTrue"],
      ["Open", "TOpenTrue"],
      ["Status ne 'done'", "TSelected"],
    ] as const) {
      check(filter, [
        `${index}: PartitionKey and RowKey as in T; exists only while ${filter}`,
        `query: all of ${index}`,
      ]);
    }
  });

  it("is an index for each property among alternatives, except PartitionKey", () => {
    check("PartitionKey eq 'a' or Email eq 'x' or RowKey eq 'b'", [
      "TByEmail: PartitionKey = <Email>, RowKey = <PartitionKey>_<RowKey> of T",
      "query: PartitionKey eq '<Email>'",
      "TByRowKey: PartitionKey = <RowKey>, RowKey = <PartitionKey> of T",
      "query: PartitionKey eq '<RowKey>'",
    ]);
    assert.match(
      remedyOf("Email eq 'x' or Phone eq 'y'")?.advice ?? "",
      /a query for each alternative/,
    );
  });

  it("is to name the partition key if the query has only a row key", () => {
    for (const filter of [
      "RowKey eq 'a'",
      "RowKey eq 'a' or RowKey eq 'b'",
      "RowKey eq 'a' and Age gt 5",
    ]) {
      assert.equal(remedyOf(filter)?.pattern, "point query");
    }
  });

  it("corrects the case of a misspelled key name", () => {
    assert.match(
      remedyOf("partitionKey eq 'a'")?.advice ?? "",
      /write PartitionKey; partitionKey is a different/,
    );
    for (const filter of ["rowkey eq 'b'", "not (rowkey eq 'b')", "(Age eq 1 or rowkey eq 'b')"]) {
      const { advice } = remedyOf(`PartitionKey eq 'a' and ${filter}`) ?? {};
      assert.match(advice ?? "", /write RowKey;/, filter);
    }
  });

  it("proposes a valid table name, and says to encode characters that keys cannot contain", () => {
    const layout = remedyOf(`home_town${"x".repeat(200)} eq 'a/b'`)?.layout ?? [];
    const [name = ""] = layout[0]?.split(":") ?? [];
    assert.match(name, /^TByHometownx+$/);
    assert.equal(name.length, LIMITS.tableNameLengthMax);
    assert.match(layout.at(-1) ?? "", /^keys: encode the characters that keys cannot contain/);
  });
});

describe("The remedy for a query of one partition", () => {
  it("is a copy of each entity, keyed by the properties tested for equality, ordered by the property with a range", () => {
    check("PartitionKey eq 'p' and Email eq 'x'", [
      "T: PartitionKey unchanged, RowKey = email_<Email>_<RowKey>",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'email_<Email>_' and RowKey lt 'email_<Email>`'",
    ]);
    check("PartitionKey eq 'p' and Town eq 'x' and Age lt 5", [
      "T: PartitionKey unchanged, RowKey = town_<Town>_<Age as fixed-width digits>_<RowKey>",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'town_<Town>_' and RowKey lt 'town_<Town>_<to>'",
    ]);
    check("PartitionKey eq 'p' and Age gt 5", [
      "T: PartitionKey unchanged, RowKey = age_<Age as fixed-width digits>_<RowKey>",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'age_<from>`' and RowKey lt 'age`'",
    ]);
    check("PartitionKey eq 'p' and (Email eq 'x' or Email eq 'y')", [
      "T: PartitionKey unchanged, RowKey = email_<Email>_<RowKey>",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'email_<Email>_' and RowKey lt 'email_<Email>`'",
    ]);
  });

  it("leaves to a filter the conditions that one key order cannot answer", () => {
    check("PartitionKey eq 'p' and Age gt 5 and Pay lt 9 and (Email eq 'x' or Town eq 'y')", [
      "T: PartitionKey unchanged, RowKey = age_<Age as fixed-width digits>_<RowKey>",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'age_<from>`' and RowKey lt 'age`'",
      "then filter the results by Pay lt 9 and (Email eq 'x' or Town eq 'y'): copy those properties, too",
    ]);
    check("PartitionKey eq 'p' and Age eq 5 and Age lt 9", [
      "T: PartitionKey unchanged, RowKey = age_<Age>_<RowKey>",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'age_<Age>_' and RowKey lt 'age_<Age>`'",
      "then filter the results by Age lt 9: copy those properties, too",
    ]);
  });

  it("copies only the matching entities for a Boolean condition", () => {
    check("PartitionKey eq 'p' and Open eq true", [
      "T: PartitionKey unchanged, RowKey = open_true_<RowKey>; exists only while Open eq true",
      "query: PartitionKey eq '<PartitionKey>' and RowKey ge 'open_true_' and RowKey lt 'open_true`'",
    ]);
  });

  it("is the log tail pattern for a condition on Timestamp", () => {
    const filter = "PartitionKey eq 'p' and Timestamp gt datetime'2026-01-01T00:00:00Z'";
    assert.equal(remedyOf(filter)?.pattern, "log tail");
  });

  it("has no index for row keys among alternatives", () => {
    const layout = remedyOf("PartitionKey eq 'p' and (RowKey eq 'a' or Age eq 5)")?.layout ?? [];
    assert.deepEqual(
      layout.filter((line) => line.startsWith("T:")),
      ["T: PartitionKey unchanged, RowKey = age_<Age>_<RowKey>"],
    );
  });

  it("is undefined for keys alone, a point query, and all row keys but some: nothing is cheaper", () => {
    for (const filter of [
      "PartitionKey eq 'p'",
      "PartitionKey eq 'p' and RowKey eq 'a' and Age gt 5",
      "PartitionKey eq 'p' and RowKey ge 'a'",
      "PartitionKey eq 'p' and RowKey ne 'a'",
      "PartitionKey eq 'p' and not (RowKey eq 'a') and RowKey ne 'b'",
    ]) {
      assert.equal(remedyOf(filter), undefined, filter);
    }
  });

  it("is one query per key for an or of several keys", () => {
    for (const filter of [
      "PartitionKey eq 'p' or PartitionKey eq 'q'",
      "PartitionKey eq 'p' and (RowKey eq 'a' or RowKey eq 'b')",
      "PartitionKey eq 'p' and RowKey lt 'a' or PartitionKey eq 'q' and RowKey gt 'a'",
    ]) {
      assert.match(remedyOf(filter)?.advice ?? "", /^This server makes 2 reads/);
    }
  });
});

describe("The shape of a filter", () => {
  const shape = (filter: string) => shapeOf(parseFilter(filter));

  it("replaces each constant by a question mark", () => {
    assert.equal(
      shape(
        "A eq 'it''s' and B gt -1.5 or C ne true and D lt guid'00000000-0000-0000-0000-000000000000'",
      ),
      "A eq ? and B gt ? or C ne ? and D lt ?",
    );
  });

  it("reduces consecutive clauses that differ only in constants to two, and keeps all others", () => {
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

describe("The meaning of a plan", () => {
  it("includes the number of reads if there are several", () => {
    const reading = (filter: string) => readingOf(planQuery(parseFilter(filter)));
    assert.match(reading("PartitionKey eq 'p'"), /^Every entity of one partition/);
    assert.match(
      reading("PartitionKey eq 'p' or PartitionKey eq 'q'"),
      /^2 reads\. The most expensive is a partition scan: every entity/,
    );
  });
});

function remedyOf(filter: string): Remedy | undefined {
  return remedyOfQuery("T", planQuery(parseFilter(filter)));
}

function check(filter: string, layout: readonly string[]): void {
  assert.deepEqual(remedyOf(filter)?.layout, layout, filter);
}
