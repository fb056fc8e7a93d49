import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import type { EntityContinuation } from "@rowhouse/protocol/query-options";
import { systemClock } from "../clock.ts";
import type { Entry, Key } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { planQuery, resumePlan } from "../query/planner.ts";
import { compilePredicate } from "../query/predicate.ts";
import { encodeRecord } from "./entity-record.ts";
import { PageReader } from "./page-reader.ts";
import { entityKey, tablePrefix } from "./table-keys.ts";

const PREFIX = tablePrefix(1, 1);
const ROW_KEYS = Array.from({ length: 60 }, (_, index) => String(100 + index));
/** All of them, each by its keys. */
const POINTS = ROW_KEYS.map((rowKey) => `RowKey eq '${rowKey}'`).join(" or ");
const LARGE = 1000;
const BYTES_MAX = 8 * LARGE;

describe("A page of point reads", () => {
  it("holds no more values at once than a page is long, and goes on behind them", async () => {
    const lab = await open(LARGE);
    const rowKeys: string[] = [];
    let from: EntityContinuation | undefined;
    do from = await lab.page({ filter: `PartitionKey eq 'p' and (${POINTS})`, from, rowKeys });
    while (from);
    assert.deepEqual(rowKeys, ROW_KEYS);
    assert.ok(lab.engine.bytesMax <= BYTES_MAX + 2 * LARGE, `${lab.engine.bytesMax}`);
  });

  it("holds no more of entities that its filter refuses, and reads them all", async () => {
    const lab = await open(LARGE);
    const rowKeys: string[] = [];
    const filter = `PartitionKey eq 'p' and (${POINTS}) and Size eq -1`;
    assert.equal(await lab.page({ filter, rowKeys }), undefined);
    assert.deepEqual(rowKeys, []);
    assert.equal(lab.engine.found, ROW_KEYS.length);
    assert.ok(lab.engine.bytesMax <= BYTES_MAX + 2 * LARGE, `${lab.engine.bytesMax}`);
  });

  it("reads small entities at once, whatever keys stand between them that are too long", async () => {
    const lab = await open(10);
    const rowKeys: string[] = [];
    const tooLong = `RowKey eq '${"13".repeat(lab.engine.keyBytesMax)}'`;
    const filter = `PartitionKey eq 'p' and (${POINTS} or ${tooLong})`;
    assert.equal(await lab.page({ filter, rowKeys }), undefined);
    assert.deepEqual(rowKeys, ROW_KEYS);
    assert.equal(lab.engine.gets, 1);
  });
});

/** Counts what its answers hold. */
class CountingEngine extends MemoryEngine {
  gets = 0;
  found = 0;
  bytesMax = 0;

  override get(keys: readonly Key[], bytesMax?: number): (Entry | undefined)[] {
    const entries = super.get(keys, bytesMax);
    const values = entries.flatMap((entry) => (entry ? [entry.value] : []));
    const bytes = values.reduce((sum, { length }) => sum + length, 0);
    this.gets++;
    this.found += values.length;
    this.bytesMax = Math.max(this.bytesMax, bytes);
    return entries;
  }
}

interface PageQuery {
  readonly filter: string;
  readonly from?: EntityContinuation | undefined;
  /** Where the row keys found are added. */
  readonly rowKeys: string[];
}

/** Entities of about `size` bytes in partition "p". */
async function open(size: number) {
  const engine = new CountingEngine();
  const body = Buffer.from(`{"Size":${size},"Text":"${"x".repeat(size)}"}`);
  const version = engine.nextVersion();
  const puts = ROW_KEYS.map((rowKey) => ({
    key: entityKey(PREFIX, "p", rowKey),
    value: encodeRecord(decodeEntity(body, { partitionKey: "p", rowKey }), version),
  }));
  await engine.commit({ version, checks: [], puts, deletes: [] });
  return {
    engine,
    /** Reads a page, and answers where the next begins. */
    async page({ filter, from, rowKeys }: PageQuery): Promise<EntityContinuation | undefined> {
      const whole = planQuery(parseFilter(filter));
      const plan = from ? resumePlan(whole, from) : whole;
      const reader = new PageReader(engine, systemClock, {
        prefix: PREFIX,
        plan,
        predicate: plan.residual && compilePredicate(plan.residual),
        entitiesMax: 1000,
        bytesMax: BYTES_MAX,
        deadline: systemClock.now() + 60_000,
        take: ({ rowKey }) => rowKeys.push(rowKey),
      });
      return (await reader.read()).next;
    },
  };
}
