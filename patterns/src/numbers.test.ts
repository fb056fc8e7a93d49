import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { advise } from "./advise.ts";
import { silences } from "./azure/silence.ts";
import { batch } from "./batch.ts";
import { inbox } from "./inbox.ts";
import { connect, entity, f, isTableError, k } from "./index.ts";
import { indexLifeCycle } from "./index-life-cycle.ts";
import { PointedBlobs } from "./large/pointed-blobs.ts";
import { listIndex } from "./list-index.ts";
import { logTail } from "./log-tail.ts";
import { delimited, logFiles } from "./logs.ts";
import { outbox } from "./outbox.ts";
import { createWorker, sendMessage } from "./queue-worker.ts";
import { remoteList } from "./remote-list.ts";
import { rotating } from "./rotation.ts";
import { saga } from "./saga.ts";
import { series, slots } from "./series.ts";
import { smallPartitions } from "./small-partitions.ts";
import { spread } from "./spread.ts";
import { sasIssuer } from "./table-sas.ts";
import { memory } from "./testing/memory.ts";
import { transport } from "./transport.ts";
import { view } from "./view.ts";
import { rebuildView } from "./view-rebuild.ts";

const WEEK_MS = 7 * 24 * 3_600_000;
const CENTURY_DAYS = 36_500;
const fields = { p: f.string(), at: f.date(), id: f.int32() };
const ids = { p: fields.p, id: fields.id };
const partition = [k.str("p")] as const;
const row = [k.lit("e"), k.uint("id", 6)] as const;
const key = { partition, row } as const;
const list = { row: [k.lit("l"), k.date("at")], property: "Ids" } as const;
const Sales = view("Sales", { fields, key, queue: "work", project: () => [] });
const Thing = entity("Thing", {
  version: 1,
  fields,
  key,
  indexes: { list: listIndex(list) },
  followers: { Sales },
});
const Dated = entity("Dated", {
  version: 1,
  fields,
  key: { partition, row: [k.date("at"), k.uint("id", 6)] },
});
const Log = logTail("Log", {
  fields: { p: f.string(), at: f.date() },
  stream: partition,
  at: "at",
});
const Requests = logFiles({ container: "logs", service: "web", format: delimited("level") });

async function open() {
  const db = connect(memory());
  await db.createTables(Thing, Log);
  await db.blobs!.createContainer("values");
  return db;
}

interface Limits {
  readonly min: number;
  readonly max?: number;
  readonly isWhole?: boolean;
  /** Leaving it out is refused. */
  readonly isRequired?: boolean;
}

const some: Limits = { min: 1, isWhole: true };
const upTo = (max: number): Limits => ({ ...some, max });
const required = (limits: Limits): Limits => ({ ...limits, isRequired: true });
const ms: Limits = { min: 0 };
const now = new Date();
const worker = (options: object) =>
  createWorker(connect(memory()), { queue: "work", handlers: [], ...options });
const send = async (options: object) => {
  const db = await open();
  await db.queues!.createQueue("work");
  await sendMessage(db, "work", { kind: "note", key: "a", body: null }, options);
};
const told = (options: object) => {
  const tell = outbox({ queue: "work", message: () => undefined, ...options });
  return entity("Told", { version: 1, fields, key, followers: { tell } });
};
const writer = (options: object) => connect(memory()).open(Requests).writer(options);
const rotate = (options: object) => rotating(Dated, { at: "at", unit: "day", keep: 2, ...options });
const advice = (options: object) =>
  advise([1], { valueIn: String, workload: { reads: 1, writes: 1 }, ...options });
const build = async (options: object) => {
  const db = await open();
  await indexLifeCycle(db, Thing, "list").disable();
  await indexLifeCycle(db, Thing, "list").build(options);
};
const issuer = sasIssuer({ account: "acme", key: btoa("key") });
const token = (ttlMs: number) => issuer.sasFor(Dated, { partition: { p: "p" }, ttlMs });
const follow = async (options: object) => {
  const signal = AbortSignal.abort();
  for await (const _ of (await open()).open(Log).follow({ p: "p" }, { ...options, signal }));
};
const read = async (options: object) => {
  const query = { from: now, to: now, ...options };
  for await (const _ of (await open()).open(Requests).read(query));
};
const collect = async (olderThanMs: number) => {
  const place = { container: "values", table: "Thing", property: "v", owner: "o", name: "n" };
  await new PointedBlobs(await open(), place).collect(olderThanMs);
};

/**
 * Every number that a program passes to the library, except those that only make it stop earlier. The last word
 * is its path in a refusal.
 */
const NUMBERS: readonly (readonly [string, Limits, (value: number) => unknown])[] = [
  ["limit.account", some, (account) => connect({ ...memory(), limit: { account } })],
  ["limit.partition", some, (partition) => connect({ ...memory(), limit: { partition } })],
  ["answerWithinMs", some, (answerWithinMs) => silences({ answerWithinMs })],
  [
    "limit",
    required(some),
    async (limit) => (await open()).open(Thing).range({ p: "p" }).limit(limit),
  ],
  ["k.uint width", required(upTo(512)), (width) => k.uint("id", width)],
  ["k.uintDesc width", required(upTo(512)), (width) => k.uintDesc("id", width)],
  ["k.int width", required(upTo(512)), (width) => k.int("id", width)],
  ["k.hash buckets", required(some), (buckets) => k.hash("id", buckets)],
  [
    "overflow max",
    required({ ...upTo(512), min: 0 }),
    (max) => k.str("id", { max, overflow: "hash" }),
  ],
  ["batch parallel", some, async (parallel) => batch(await open(), () => {}, { parallel })],
  ["shards", upTo(1000), async (shards) => build({ shards })],
  ["shards in parallel", upTo(1000), async (parallel) => build({ parallel })],
  ["rowsMax", upTo(16), (rowsMax) => listIndex({ ...list, rowsMax })],
  ["propertyLengthMax", upTo(32_768), (most) => listIndex({ ...list, propertyLengthMax: most })],
  ["lengthMax", upTo(32_768), (lengthMax) => remoteList({ ...list, partition, lengthMax })],
  [
    "writers",
    upTo(248),
    (writers) => series("Sss", { fields, key, slots: slots("n", 2), writers }),
  ],
  [
    "slots",
    required(upTo(248)),
    (count) => series("Sss", { fields: ids, key, slots: slots("n", count) }),
  ],
  [
    "buckets",
    required(upTo(256)),
    (buckets) => spread("Spr", { fields, stream: partition, at: "at", buckets }),
  ],
  ["maxRows", required(upTo(999)), (maxRows) => smallPartitions(Thing, { maxRows })],
  ["inbox buckets", upTo(CENTURY_DAYS), (buckets) => inbox("Seen", { buckets })],
  ["inbox keepDays", upTo(CENTURY_DAYS), (keepDays) => inbox("Seen", { keepDays })],
  ["keep", required(upTo(1000)), (keep) => rotate({ keep })],
  ["ahead", { min: 0, max: 1000, isWhole: true }, (ahead) => rotate({ ahead })],
  [
    "rotation graceMs",
    { ...ms, max: CENTURY_DAYS * 24 * 3_600_000 },
    (graceMs) => rotate({ graceMs }),
  ],
  ["rebuild graceMs", ms, async (graceMs) => rebuildView(await open(), Sales, Thing, { graceMs })],
  [
    "saga version",
    some,
    (version) => saga("s", (s) => s.input<null>().step("a", async () => 1), { version }),
  ],
  ["concurrency", some, (concurrency) => worker({ concurrency })],
  ["worker batch", some, (batch) => worker({ batch })],
  ["maxDequeue", some, (maxDequeue) => worker({ maxDequeue })],
  ["visibilityMs", { min: 1, max: WEEK_MS }, (visibilityMs) => worker({ visibilityMs })],
  ["renewAt", { min: 0.01, max: 0.99 }, (renewAt) => worker({ renewAt })],
  [
    "peekPoison max",
    upTo(32),
    async (max) => {
      const working = worker({});
      await working.createQueues();
      await working.peekPoison(max);
    },
  ],
  ["delayMs", { min: 0, max: WEEK_MS }, (delayMs) => send({ delayMs })],
  ["timeToLiveS", some, (timeToLiveS) => send({ timeToLiveS })],
  ["outbox tripwireMs", { min: 5000, max: WEEK_MS }, (tripwireMs) => told({ tripwireMs })],
  [
    "attempts",
    some,
    async (attempts) => (await open()).open(Thing).delete({ p: "p", id: 1 }, { attempts }),
  ],
  ["drainTimeoutMs", ms, (drainTimeoutMs) => worker({ drainTimeoutMs })],
  ["pollMs", { min: 1 }, (pollMs) => follow({ pollMs })],
  ["overlapMs", ms, (overlapMs) => follow({ overlapMs })],
  ["slackHours", { min: 0, max: 10_000, isWhole: true }, (slackHours) => read({ slackHours })],
  ["flush.ms", { min: 1 }, (ms) => writer({ flush: { ms } })],
  ["flush.records", { min: 1 }, (records) => writer({ flush: { records } })],
  ["flush.bytes", { min: 1 }, (bytes) => writer({ flush: { bytes } })],
  ["file.bytes", { min: 1 }, (bytes) => writer({ file: { bytes } })],
  ["file.blocks", { min: 1 }, (blocks) => writer({ file: { blocks } })],
  ["highWaterBytes", { min: 1 }, (highWaterBytes) => writer({ highWaterBytes })],
  ["olderThanMs", ms, collect],
  ["connections", upTo(2 ** 31 - 1), (connections) => transport("http://a", { connections })],
  ["idleMs", upTo(2 ** 31 - 1), (idleMs) => transport("http://a", { idleMs })],
  ["ttlMs", { min: 1000, max: WEEK_MS }, (ttlMs) => token(ttlMs)],
  ["sampleMax", some, (sampleMax) => advice({ sampleMax })],
  ["rowsTotal", ms, (rowsTotal) => advice({ rowsTotal })],
];

describe("a number", () => {
  for (const [name, { min, max, isWhole = false, isRequired = false }, use] of NUMBERS) {
    const path = name.split(" ").at(-1);
    const expected = `a${isWhole ? " whole" : ""} number from ${min} to ${max ?? "Infinity"}`;
    it(`is refused as ${name}, with its limits, if it is out of range, and accepted at the limits`, async () => {
      const bad: unknown[] = [Number.NaN, -1, min - 0.001, Number.NEGATIVE_INFINITY, `${min}`];
      if (isWhole) bad.push(min + 0.5);
      if (max !== undefined) bad.push(max + 1, Number.POSITIVE_INFINITY);
      for (const value of bad) {
        // As plain JavaScript may pass it.
        const refusal = await outcomeOf(use, value as number);
        const isRefused =
          isTableError(refusal, "validation-failed") || isTableError(refusal, "invalid-definition");
        assert.ok(isRefused, `${value}: ${refusal}`);
        assert.deepEqual(refusal.issues, [{ path, message: `${value} is not ${expected}` }]);
      }
      for (const value of [min, ...(max === undefined ? [] : [max])]) {
        const refusal = await outcomeOf(use, value);
        assert.ok(!isTableError(refusal), `${value}: ${refusal}`);
      }
      const unsaid = await outcomeOf(use, undefined as unknown as number);
      assert.equal(isTableError(unsaid), isRequired, `undefined: ${unsaid}`);
    });
  }
});

async function outcomeOf(use: (value: number) => unknown, value: number): Promise<unknown> {
  try {
    await use(value);
    return undefined;
  } catch (error) {
    return error;
  }
}
