import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { encodeName } from "@rowhouse/protocol/property-name";
import type { EntityContinuation } from "@rowhouse/protocol/query-options";
import { type Awaitable, whenReady } from "../awaitable.ts";
import type { Engine, Entry, Key, KeyRange, ScanEnd, Supports, Visit } from "../engine/engine.ts";
import { copyKey } from "../engine/key-codec.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { planQuery, resumePlan } from "../query/planner.ts";
import { compilePredicate } from "../query/predicate.ts";
import { encodeRecord } from "./entity-record.ts";
import { PageReader } from "./page-reader.ts";
import type { RecordView } from "./record-view.ts";
import { entityKey, tablePrefix } from "./table-keys.ts";

const PREFIX = tablePrefix(1, 1);
const ROW_KEYS = Array.from({ length: 60 }, (_, index) => String(100 + index));
/** A filter for all of them, each by its key. */
const POINTS = ROW_KEYS.map((rowKey) => `RowKey eq '${rowKey}'`).join(" or ");
const LARGE = 1000;
const BYTES_MAX = 8 * LARGE;

describe("A page of point reads", () => {
  it("never holds more value bytes than a page may have, and continues after them", async () => {
    const lab = await open(LARGE);
    const rowKeys: string[] = [];
    let from: EntityContinuation | undefined;
    do from = await lab.page({ filter: `PartitionKey eq 'p' and (${POINTS})`, from, rowKeys });
    while (from);
    assert.deepEqual(rowKeys, ROW_KEYS);
    assert.ok(lab.engine.bytesMax <= BYTES_MAX + 2 * LARGE, `${lab.engine.bytesMax}`);
  });

  it("never holds more bytes of entities that its filter rejects, and reads them all", async () => {
    const lab = await open(LARGE);
    const rowKeys: string[] = [];
    const filter = `PartitionKey eq 'p' and (${POINTS}) and Size eq -1`;
    assert.equal(await lab.page({ filter, rowKeys }), undefined);
    assert.deepEqual(rowKeys, []);
    assert.equal(lab.engine.found, ROW_KEYS.length);
    assert.ok(lab.engine.bytesMax <= BYTES_MAX + 2 * LARGE, `${lab.engine.bytesMax}`);
  });

  it("reads small entities in one call, even with an overlong key among them", async () => {
    const lab = await open(10);
    const rowKeys: string[] = [];
    const tooLong = `RowKey eq '${"13".repeat(lab.engine.keyBytesMax)}'`;
    const filter = `PartitionKey eq 'p' and (${POINTS} or ${tooLong})`;
    assert.equal(await lab.page({ filter, rowKeys }), undefined);
    assert.deepEqual(rowKeys, ROW_KEYS);
    assert.equal(lab.engine.reads, 1);
  });
});

describe("A page of several reads of one partition", () => {
  const READS = {
    "two ranges": "RowKey lt '120' or RowKey ge '140'",
    "a range and a point": "RowKey lt '120' or RowKey eq '140'",
    "points and a range": "RowKey eq '101' or RowKey eq '102' or RowKey ge '140'",
  };

  for (const [name, keys] of Object.entries(READS)) {
    const filter = `PartitionKey eq 'p' and (${keys})`;

    it(`shows one snapshot, ending before a write: ${name}`, async () => {
      for (const become of ["others", "absent"] as const) {
        for (const when of ["afterFirstRead", "beforeSecondRead"] as const) {
          const lab = await open(10);
          lab.engine[when] = () => lab.write(11, become);
          const sizes: number[] = [];
          assert.equal((await lab.page({ filter, sizes }))?.rowKey, "140", when);
          assert.deepEqual([...new Set(sizes)], [10]);
        }
      }
    });

    it(`continues while there is no write: ${name}`, async () => {
      const lab = await open(10);
      const rowKeys: string[] = [];
      assert.equal(await lab.page({ filter, rowKeys }), undefined);
      assert.ok(rowKeys.includes("140"));
    });

    it(`ends after the first read when the engine does not number its commits: ${name}`, async () => {
      const lab = await open(10);
      lab.engine.numbersCommits = false;
      const rowKeys: string[] = [];
      const next = await lab.page({ filter, rowKeys });
      assert.ok(!rowKeys.includes("140"));
      assert.equal(await lab.page({ filter, from: next, rowKeys }), undefined);
      assert.equal(new Set(rowKeys).size, rowKeys.length);
      assert.ok(rowKeys.includes("140"));
    });
  }

  for (const [name, keys] of Object.entries(READS)) {
    const filter = `PartitionKey eq 'p' and (${keys})`;

    it(`is complete when the engine scans ranges together: ${name}`, async () => {
      const lab = await open(10);
      lab.engine.numbersCommits = false;
      lab.engine.readsTogether();
      const rowKeys: string[] = [];
      assert.equal(await lab.page({ filter, rowKeys }), undefined);
      assert.deepEqual(rowKeys, rowKeys.toSorted());
      assert.ok(rowKeys.includes("101") && rowKeys.includes("140"));
      assert.equal(lab.engine.reads, 1);
    });

    it(`ends where the engine ends its scan of ranges together: ${name}`, async () => {
      const lab = await open(10);
      lab.engine.numbersCommits = false;
      lab.engine.entriesPerScan = 2;
      lab.engine.readsTogether();
      const rowKeys: string[] = [];
      let from: EntityContinuation | undefined;
      let pages = 0;
      do {
        from = await lab.page({ filter, from, rowKeys });
        pages++;
      } while (from);
      const all: string[] = [];
      await (await open(10)).page({ filter, rowKeys: all });
      assert.deepEqual(rowKeys, all);
      assert.ok(pages > 1);
    });
  }

  it("scans at most 32 ranges together, and the next ones on another page", async () => {
    const lab = await open(10);
    lab.engine.numbersCommits = false;
    lab.engine.readsTogether();
    const apart = ROW_KEYS.map((key) => `RowKey ge '${key}' and RowKey lt '${key}5'`).join(" or ");
    const filter = `PartitionKey eq 'p' and (${apart})`;
    const rowKeys: string[] = [];
    const from = await lab.page({ filter, rowKeys });
    assert.deepEqual([from?.rowKey, rowKeys.length], ["132", 32]);
    assert.equal(await lab.page({ filter, from, rowKeys }), undefined);
    assert.deepEqual(rowKeys, ROW_KEYS);
  });

  it("shows one snapshot even if the first read finds nothing", async () => {
    for (const numbersCommits of [true, false]) {
      const lab = await open(10);
      lab.engine.numbersCommits = numbersCommits;
      lab.engine.beforeSecondRead = () => lab.add("099", "160");
      const filter = "PartitionKey eq 'p' and (RowKey lt '100' or RowKey ge '160')";
      const rowKeys: string[] = [];
      assert.equal((await lab.page({ filter, rowKeys }))?.rowKey, "160");
      assert.deepEqual(rowKeys, []);
    }
  });

  it("shows one snapshot even if the engine ends its own before anything is found", async () => {
    const lab = await open(10);
    lab.engine.entriesPerScan = 10;
    lab.engine.beforeSecondRead = () => lab.write(11, "others");
    const filter = "PartitionKey eq 'p' and Size eq 11";
    const rowKeys: string[] = [];
    const next = await lab.page({ filter, rowKeys });
    assert.deepEqual([next?.rowKey, rowKeys], ["110", []]);
  });

  it("continues in another partition despite writes", async () => {
    const lab = await open(10);
    lab.engine.beforeSecondRead = () => lab.write(11, "others");
    const filter = "PartitionKey eq 'a' or (PartitionKey eq 'p' and RowKey ge '140')";
    const sizes: number[] = [];
    assert.equal(await lab.page({ filter, sizes }), undefined);
    assert.deepEqual([...new Set(sizes)], [10, 11]);
  });

  it("ends at its time limit, even between reads that find nothing", async () => {
    const lab = await open(10);
    lab.engine.beforeSecondRead = () => {
      lab.clock.at += PAGE_MS + 1;
    };
    const filter = "PartitionKey eq 'b' or PartitionKey eq 'd' or PartitionKey eq 'f'";
    assert.deepEqual(await lab.page({ filter }), { partitionKey: "f", rowKey: "" });
    assert.equal(lab.engine.reads, 2);
  });
});

/** A memory engine that counts the bytes in its results. */
class LabEngine extends MemoryEngine {
  override supports: Supports = { ...new MemoryEngine().supports, scanRanges: false };
  numbersCommits = true;
  afterFirstRead = (): void => {};
  beforeSecondRead = () => {};
  /** How many entries one snapshot shows. */
  entriesPerScan = Number.POSITIVE_INFINITY;
  reads = 0;
  found = 0;
  bytesMax = 0;

  override newestCommit(): number | undefined {
    return this.numbersCommits ? super.newestCommit() : undefined;
  }

  override get(keys: readonly Key[], bytesMax?: number): (Entry | undefined)[] {
    if (++this.reads === 2) this.beforeSecondRead();
    const entries = super.get(keys, bytesMax);
    const values = entries.flatMap((entry) => (entry ? [entry.value] : []));
    const bytes = values.reduce((sum, { length }) => sum + length, 0);
    this.found += values.length;
    this.bytesMax = Math.max(this.bytesMax, bytes);
    if (this.reads === 1) this.afterFirstRead();
    return entries;
  }

  override scan(range: KeyRange, visit: Visit): Awaitable<ScanEnd> {
    if (++this.reads === 2) this.beforeSecondRead();
    let visited = 0;
    let resumeAt: Key | undefined;
    const ended = super.scan(range, (entry) => {
      if (visited++ < this.entriesPerScan) return visit(entry);
      resumeAt = copyKey(entry.key);
      return false;
    });
    return whenReady(ended, (known) => {
      if (this.reads === 1) this.afterFirstRead();
      return resumeAt ? { resumeAt } : known;
    });
  }

  scanRanges?: NonNullable<Engine["scanRanges"]>;

  /** From now on the engine scans several ranges in one snapshot, with no commit in between. */
  readsTogether(): void {
    this.supports = { ...this.supports, scanRanges: true };
    this.scanRanges = async (ranges, visit) => {
      this.reads++;
      let visited = 0;
      let resumeAt: Key | undefined;
      for (const range of ranges) {
        // On a busy machine the memory engine may yield in the middle of a scan.
        const ended = await super.scan(range, (entry) => {
          if (visited++ < this.entriesPerScan) return visit(entry);
          resumeAt = copyKey(entry.key);
          return false;
        });
        if (resumeAt) return { resumeAt };
        if (ended !== "complete") return ended;
      }
      return "complete";
    };
  }
}

const PAGE_MS = 5000;

interface PageQuery {
  readonly filter: string;
  readonly from?: EntityContinuation | undefined;
  /** Receives the row keys found; `sizes` likewise. */
  readonly rowKeys?: string[];
  readonly sizes?: number[];
}

/** Entities of about `size` bytes: all in partition "p", and one in "a". */
async function open(size: number) {
  const engine = new LabEngine();
  const clock = { at: 0, now: () => clock.at };
  const sizeName = encodeName("Size");
  const keyOf = (rowKey: string) => entityKey(PREFIX, "p", rowKey);
  const putsOf = (partitionKey: string, rowKeys: readonly string[], size: number) => {
    const body = Buffer.from(`{"Size":${size},"Text":"${"x".repeat(size)}"}`);
    return rowKeys.map((rowKey) => ({
      key: entityKey(PREFIX, partitionKey, rowKey),
      value: encodeRecord(decodeEntity(body, { partitionKey, rowKey }), 1),
    }));
  };
  const puts = [...putsOf("a", ["100"], size), ...putsOf("p", ROW_KEYS, size)];
  await engine.commit({ version: engine.nextVersion(), checks: [], puts, deletes: [] });
  return {
    engine,
    clock,
    /** A transaction that replaces all of "p", or two thirds of it and deletes the rest. */
    write(size: number, last: "others" | "absent"): void {
      const kept = last === "others" ? ROW_KEYS : ROW_KEYS.slice(0, 40);
      const puts = putsOf("p", kept, size);
      const deletes = ROW_KEYS.slice(kept.length).map(keyOf);
      void engine.commit({ version: engine.nextVersion(), checks: [], puts, deletes });
    },
    /** A transaction that adds entities to "p". */
    add(...rowKeys: string[]): void {
      const puts = putsOf("p", rowKeys, size);
      void engine.commit({ version: engine.nextVersion(), checks: [], puts, deletes: [] });
    },
    /** Reads a page, and returns where the next begins. */
    async page(query: PageQuery): Promise<EntityContinuation | undefined> {
      const { filter, from, rowKeys, sizes } = query;
      const whole = planQuery(parseFilter(filter));
      const plan = from ? resumePlan(whole, from) : whole;
      const reader = new PageReader(engine, clock, {
        prefix: PREFIX,
        plan,
        predicate: plan.residual && compilePredicate(plan.residual),
        entitiesMax: 1000,
        bytesMax: BYTES_MAX,
        deadline: clock.now() + PAGE_MS,
        take(view: RecordView) {
          rowKeys?.push(view.rowKey);
          sizes?.push(view.number(view.find(sizeName)));
        },
      });
      return (await reader.read()).next;
    },
  };
}
