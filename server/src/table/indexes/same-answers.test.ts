import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ComparisonOperator, FilterNode, Literal } from "@rowhouse/protocol/filter-tree";
import type { EntityContinuation } from "@rowhouse/protocol/query-options";
import { systemClock } from "../../clock.ts";
import { MemoryEngine } from "../../engine/memory-engine.ts";
import { type IndexPlan, planIndexes } from "../../query/indexes/index-planner.ts";
import { planQuery, resumePlan } from "../../query/planner.ts";
import { compilePredicate } from "../../query/predicate.ts";
import { PageReader } from "../page-reader.ts";
import { IndexSource } from "./index-source.ts";
import {
  ACCOUNT,
  type IndexLab,
  insertion,
  openIndexLab,
  randomFrom,
  randomMutations,
  TABLE,
} from "./test-index-model.ts";

const KEYS: readonly (readonly [name: string, key: string])[] = [
  ["ByA", "A:String"],
  ["ByBA", "B:Int32 desc,A:String"],
  ["ByC", "C:Double"],
  ["LocalByA", "PartitionKey,A:String"],
  ["LocalByBC", "PartitionKey,B:Int32,C:String"],
];

describe("A query through indexes", () => {
  it("has the pages and the continuations of a scan, whichever of the two a page is read by", async () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const random = randomFrom(seed);
    const lab = await openTable();
    for (let i = 0; i < 300; i++) await lab.write(...randomMutations(random));
    let indexed = 0;
    for (let query = 0; query < 1000; query++) {
      const filter = randomFilter(random, 2);
      const top = 1 + random(6);
      const note = `seed ${seed}, query ${query}: ${JSON.stringify(filter, bigints)}`;
      let from: EntityContinuation | undefined;
      for (let pages = 0; pages < 100; pages++) {
        const scanned = await page(lab, filter, from, top, false);
        const found = await page(lab, filter, from, top, true);
        if (found.plan) indexed++;
        assert.deepEqual([found.keys, found.next], [scanned.keys, scanned.next], note);
        from = found.next;
        if (!from) break;
        if (random(20) === 0) await lab.write(...randomMutations(random));
      }
    }
    assert.ok(indexed > 300, `Only ${indexed} pages were read through an index.`);
  });

  it("fills its pages with large tables too, and scans where that is cheaper", async () => {
    const lab = await openTable();
    const insert = (i: number) =>
      lab.write(
        insertion("insert", `p${i % 7}`, String(i).padStart(6, "0"), `"A":"a${i % 9}","B":${i}`),
      );
    for (let i = 0; i < 10_000; i++) await insert(i);
    for (const [filter, top, shape, givesUp] of [
      [comparison("A", "eq", text("a3")), 1000, "runs", false],
      [comparison("A", "eq", text("a3")), 5, "runs", false],
      [
        and(comparison("B", "ge", int(500)), comparison("B", "lt", int(1500))),
        1000,
        "collect",
        false,
      ],
      [comparison("B", "ge", int(500)), 1000, "collect", true],
      [comparison("B", "lt", int(5)), 1000, "collect", false],
    ] as const) {
      let from: EntityContinuation | undefined;
      do {
        const scanned = await page(lab, filter, from, top, false);
        const found = await page(lab, filter, from, top, true);
        assert.equal(found.plan?.shape, shape);
        assert.equal(found.source?.wasGivenUp, givesUp, JSON.stringify(filter));
        assert.deepEqual([found.keys, found.next], [scanned.keys, scanned.next]);
        from = top === 1000 ? found.next : undefined;
      } while (from);
    }
  });

  it("is never used for absence, nor for what only looks at the value's absence", async () => {
    const lab = await openTable();
    await lab.write(insertion("insert", "p", "r", ""));
    for (const filter of [
      { kind: "not", clause: comparison("A", "ne", text("x")) },
      comparison("A", "ne", text("x")),
      { kind: "or", clauses: [comparison("A", "eq", text("x")), comparison("D", "eq", text("x"))] },
    ] as const) {
      const found = await page(lab, filter, undefined, 10, true);
      assert.equal(found.plan, undefined);
      const scanned = await page(lab, filter, undefined, 10, false);
      assert.deepEqual(found.keys, scanned.keys);
    }
  });
});

async function openTable(): Promise<IndexLab> {
  const lab = await openIndexLab(new MemoryEngine());
  await lab.catalog.create(ACCOUNT, TABLE, { policies: [] });
  for (const [name, key] of KEYS) await lab.declare(name, key);
  return lab;
}

async function page(
  lab: IndexLab,
  filter: FilterNode,
  from: EntityContinuation | undefined,
  top: number,
  withIndexes: boolean,
) {
  const opened = await lab.entities.openTable(ACCOUNT, TABLE);
  const whole = planQuery(filter);
  const plan = from ? resumePlan(whole, from) : whole;
  const indexes = opened.indexes.map(({ index }) => index);
  const indexPlan: IndexPlan | undefined = withIndexes ? planIndexes(plan, indexes) : undefined;
  const predicate = plan.residual && compilePredicate(plan.residual);
  const bounds = {
    prefix: opened.prefix,
    entitiesMax: top,
    bytesMax: 2 ** 23,
    deadline: Number.POSITIVE_INFINITY,
  };
  const source =
    indexPlan &&
    new IndexSource({
      ...bounds,
      engine: lab.engine,
      clock: systemClock,
      plan: indexPlan,
      indexes: opened.indexes,
      predicate: predicate!,
    });
  const keys: string[] = [];
  const reader = new PageReader(lab.engine, systemClock, {
    ...bounds,
    plan,
    predicate,
    source,
    take: (view) => keys.push(`${view.partitionKey}/${view.rowKey}`),
  });
  const { next } = await reader.read();
  return { keys, next, plan: indexPlan, source };
}

const text = (value: string): Literal => ({ type: "Edm.String", value });
const int = (value: number): Literal => ({ type: "Edm.Int32", value });
const and = (...clauses: FilterNode[]): FilterNode => ({ kind: "and", clauses });

function comparison(property: string, operator: ComparisonOperator, literal: Literal): FilterNode {
  return { kind: "comparison", property, operator, literal };
}

const OPERATORS: readonly ComparisonOperator[] = ["eq", "eq", "eq", "ne", "lt", "le", "gt", "ge"];
const LITERALS: readonly Literal[] = [
  ...["", "a", "b!", "a/b", 'q"', "é", "😀", "x".repeat(300), "x".repeat(301)].map(text),
  int(0),
  int(-1),
  { type: "Edm.Int64", value: 1n },
  { type: "Edm.Double", value: 0.5 },
  { type: "Edm.Double", value: Number.NaN },
  { type: "Edm.Boolean", value: true },
  { type: "Edm.DateTime", value: 634_979_520_000_000_000n },
  { type: "Edm.Guid", value: "c56a4180-65aa-42ec-a945-5fd21dec0538" },
  { type: "Edm.Binary", value: Uint8Array.of(7) },
];

function randomFilter(random: (limit: number) => number, depth: number): FilterNode {
  const kind = random(depth > 0 ? 10 : 5);
  if (kind >= 5) {
    const clauses = Array.from({ length: 2 + random(2) }, () => randomFilter(random, depth - 1));
    return { kind: kind < 8 ? "and" : "or", clauses };
  }
  if (kind === 4) {
    const property = random(3) === 0 ? "RowKey" : "PartitionKey";
    const value = ["", "p", "p!", "q😀", "r", "r1"][random(6)]!;
    return comparison(property, OPERATORS[random(OPERATORS.length)]!, text(value));
  }
  if (kind === 3 && random(3) === 0) return { kind: "not", clause: randomFilter(random, 0) };
  const literal = random(2) === 0 ? LITERALS[random(9)]! : LITERALS[random(LITERALS.length)]!;
  return comparison("ABC"[random(3)]!, OPERATORS[random(OPERATORS.length)]!, literal);
}

function bigints(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}
