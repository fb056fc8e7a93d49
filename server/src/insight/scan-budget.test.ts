import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { explain } from "../query/explain.ts";
import { planQuery } from "../query/planner.ts";
import { type Insight, keysRead, type QueryCost, type QueryFacts } from "./insight.ts";
import { shapeOf } from "./query-remedy.ts";
import { ScanBudget } from "./scan-budget.ts";
import { parseScanRules } from "./scan-budget-rules.ts";

describe("A scan budget", () => {
  it("allows point queries and counts scans, grouped by shape", () => {
    const budget = new ScanBudget(parseScanRules("no table scan"));
    run(budget, "PartitionKey eq 'a' and RowKey eq 'b'", 1, 1);
    run(budget, "Email eq 'x'", 1000, 1);
    run(budget, "Email eq 'y'", 1000, 1);
    const { queries, overBudget, refused, overruns } = budget.summary();
    assert.deepEqual([queries, overBudget, refused], [3, 2, 0]);
    assert.equal(overruns.length, 1);
    assert.equal(overruns[0]!.shape, "Email eq ?");
    assert.deepEqual([overruns[0]!.count, overruns[0]!.entitiesRead], [2, 2000]);
  });

  it("also applies to classes more expensive than the one named", () => {
    const budget = new ScanBudget(parseScanRules("no partition scan"));
    run(budget, "PartitionKey ge 'a'", 5, 5);
    assert.equal(budget.summary().overBudget, 1);
  });

  it("checks density only for pages that read enough entities", () => {
    const budget = new ScanBudget(parseScanRules("density 0.5 from 100"));
    run(budget, "PartitionKey eq 'a' and Age gt 5", 99, 0);
    run(budget, "PartitionKey eq 'a' and Age gt 5", 100, 50);
    assert.equal(budget.summary().overBudget, 0);
    run(budget, "PartitionKey eq 'a' and Age gt 5", 100, 49);
    assert.equal(budget.summary().overBudget, 1);
  });

  it("uses a table's own rules instead of the general ones, in any case of the table's name", () => {
    const budget = new ScanBudget(parseScanRules("no table scan; people: read 500; Log: allow"));
    run(budget, "", 400, 400, "People");
    run(budget, "", 9000, 1, "LOG");
    assert.equal(budget.summary().overBudget, 0);
    run(budget, "", 501, 501, "People");
    run(budget, "", 1, 1, "Other");
    assert.equal(budget.summary().overBudget, 2);
  });

  it("refuses a query in strict mode before anything is read, with a message that has query, cost and fix", () => {
    const budget = new ScanBudget(parseScanRules("no table scan; strict"));
    assert.throws(() => budget.admitQuery(facts("Email eq 'x'")), {
      code: "ScanBudgetExceeded",
      status: 400,
      message: /table scan where Email eq 'x'; nothing was read\. .*PeopleByEmail/,
    });
    assert.equal(budget.summary().refused, 1);
  });

  it("accepts rules as JSON", () => {
    const json = { strict: true, rules: [{ table: "T", class: "table scan", density: 0.2 }] };
    assert.deepEqual(
      parseScanRules(JSON.stringify(json)).rules.map((rule) => ({ ...rule })),
      [
        {
          table: "T",
          allow: false,
          class: "table scan",
          density: 0.2,
          from: 100,
          read: undefined,
        },
      ],
    );
  });

  it("applies all limits of a part in any order, and none if one is allow", () => {
    const rules = "no partition scan, no table scan, read 500, read 100; Log: allow, read 1";
    const budget = new ScanBudget(parseScanRules(rules));
    run(budget, "", 9, 9, "Log");
    assert.equal(budget.summary().overBudget, 0);
    run(budget, "PartitionKey eq 'a'", 9, 9);
    run(budget, "PartitionKey eq 'a' and RowKey ge 'b'", 101, 101);
    assert.equal(budget.summary().overBudget, 2);
  });

  // If accepted, each would be a budget that never binds, and no test suite would ever fail.
  const noClass = (text: string) =>
    `"${text}" is not a query class; the classes are point query, range query, partition scan, partition range, table scan.`;
  const noLimit = (text: string) =>
    `"${text}" is not a scan budget limit; use "no CLASS", "density SHARE from COUNT", "read COUNT" or "allow".`;
  const noDensity = (text: string) => `The density ${text} is not a number from 0 to 1.`;
  const noRules = "The scan budget has no rules.";
  const rule = "the scan budget.rules[0]";
  for (const [text, message] of [
    ["", noRules],
    ["strict", noRules],
    ["no scan", noClass("scan")],
    ["T: no nothing", noClass("nothing")],
    ["density 1.1", noDensity("1.1")],
    ["dense", noLimit("dense")],
    ["read -1", noLimit("read -1")],
    ["{", "The scan budget is not valid JSON."],
    ["{}", noRules],
    ['{"rules":[]}', noRules],
    ['{"rule":[{"read":1}]}', "the scan budget has rule; allowed are strict, rules."],
    ['{"rules":[{"table":"T"}]}', `${rule} limits nothing; set class, density, read or allow.`],
    [
      '{"rules":[{"read":"many"}]}',
      `${rule}.read is a string; a whole number of at least 0 is expected.`,
    ],
    ['{"rules":[{"class":"scan"}]}', noClass("scan")],
    ['{"rules":[{"density":-0.1}]}', noDensity("-0.1")],
    ['{"rules":[{"density":"0.1"}]}', noDensity('"0.1"')],
    [
      '{"rules":[{"class":"table scan","densty":0.1}]}',
      `${rule} has densty; allowed are class, density, table, allow, from, read.`,
    ],
    [
      '{"rules":[{"class":"table scan"}],"strict":"yes"}',
      "the scan budget.strict is a string; true or false is expected.",
    ],
  ] as const) {
    it(`refuses the rules ${JSON.stringify(text)}, and says why`, () => {
      assert.throws(() => parseScanRules(text), { message });
    });
  }
});

describe("The shape of a filter", () => {
  it("keeps properties and operators and drops every constant", () => {
    const filter =
      "Name eq 'O''Brien eq 5' and Age gt -5 and Big lt 7L and D ge 1.5e3 and Ok eq true and G eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'";
    const expected = "Name eq ? and Age gt ? and Big lt ? and D ge ? and Ok eq ? and G eq ?";
    assert.equal(shapeOf(parseFilter(filter)), expected);
  });

  it("is the same for lists of alternatives of any length", () => {
    const list = (count: number, clause: (i: number) => string, word = " or ") =>
      Array.from({ length: count }, (_, i) => clause(i)).join(word);
    for (const count of [2, 3, 100]) {
      const shape = (filter: string) => shapeOf(parseFilter(filter));
      const rows = list(count, (i) => `RowKey eq '${i}'`);
      assert.equal(shape(rows), "RowKey eq ? or RowKey eq ?");
      assert.equal(
        shape(`PartitionKey eq 'p' and (${rows}) and not (Age gt ${count})`),
        "PartitionKey eq ? and (RowKey eq ? or RowKey eq ?) and not (Age gt ?)",
      );
      const pairs = list(count, (i) => `(PartitionKey eq 'p' and (${rows} or Age lt ${i}))`);
      assert.equal(
        shape(pairs),
        Array(2)
          .fill("PartitionKey eq ? and (RowKey eq ? or RowKey eq ? or Age lt ?)")
          .join(" or "),
      );
      assert.equal(shape(list(count, (i) => `Age ne ${i}`, " and ")), "Age ne ? and Age ne ?");
    }
    for (const other of [
      "Age eq ? or Old eq ? or Age eq ?",
      "Age gt ? or Age lt ?",
      "A or B or not A",
    ]) {
      assert.equal(shapeOf(parseFilter(other.replaceAll("?", "1"))), other);
    }
  });
});

function facts(filter: string, table = "People"): QueryFacts {
  const plan = planQuery(filter === "" ? undefined : parseFilter(filter));
  const planText = explain(plan);
  const base = { at: 0, account: "a", client: "::1", projected: false, continued: false };
  return { ...base, table, plan, class: plan.class, ...keysRead(plan), planText, filter };
}

function run(
  budget: Pick<Insight, "admitQuery" | "queried">,
  filter: string,
  entitiesRead: number,
  entitiesReturned: number,
  table?: string,
): void {
  const query = facts(filter, table);
  const cost: QueryCost = { entitiesRead, entitiesReturned, bytesRead: 0, engineMicros: 0 };
  budget.admitQuery(query);
  budget.queried(query, cost);
}
