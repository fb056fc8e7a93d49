import { BackgroundLoop, type BackgroundWork } from "../../catalog/background-loop.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import type { Clock } from "../../clock.ts";
import {
  type Check,
  type Engine,
  type KeyRange,
  PREMISE_FAILED,
  type Put,
} from "../../engine/engine.ts";
import { after, copyKey, decodeText, partitionPrefixRange } from "../../engine/key-codec.ts";
import { scanToEnd } from "../../engine/scan-to-end.ts";
import { recordOf } from "../entity-record.ts";
import { positionKey, tablePrefix } from "../table-keys.ts";
import type { TableValue } from "../table-value.ts";
import {
  BUILD_RATE,
  encodeProgress,
  forgetBuild,
  progressKey,
  readProgress,
} from "./index-build.ts";
import type { IndexCatalog, KeptIndex } from "./index-catalog.ts";
import { entryOf, openIndex } from "./open-index.ts";

export interface IndexBuilderOptions {
  readonly engine: Engine;
  readonly catalog: Catalog<TableValue>;
  readonly indexes: IndexCatalog;
  readonly clock: Clock;
  readonly onError: (error: unknown) => void;
}

/** Entities of one commit. Others wait for it: a larger one saves little and delays them more. */
const BATCH_ENTITIES = 250;
/** For builds without a rate, whose declaration says that others may wait: a quarter of the flushes. */
const FAST_BATCH_ENTITIES = 1000;
const PERIOD_MS = 60_000;
/** As the reaper waits, and for the same reason: a write that began before the index was declared may still commit. */
const GRACE_MICROS = 60 * 1_000_000;

/** "built": a batch was committed. "waiting": for writers from before the index. "over": ready, or gone. */
export type BuildStep = "built" | "waiting" | "over";

/**
 * Builds indexes over tables that have entities, beside their readers and writers.
 *
 * Writers maintain an index from its declaration on, so only entities older than that lack entries. A batch commits the
 * entries of some entities on condition that none of these has changed, together with how far the build has come. A
 * writer that was faster spoils the batch, which is then tried again in smaller parts, down to a single entity. So there
 * is no order of events in which an entry is left out or left over, a kill loses no work, and several processes may
 * build at once: one of them wins each batch.
 */
export class IndexBuilder implements BackgroundWork {
  readonly #options: IndexBuilderOptions;
  readonly #loop: BackgroundLoop;

  constructor(options: IndexBuilderOptions) {
    this.#options = options;
    const { onError } = options;
    this.#loop = new BackgroundLoop({ run: () => this.build(), periodMs: PERIOD_MS, onError });
  }

  start(): void {
    this.#loop.start();
  }

  /** Call it when an index was declared, or has to be built again. */
  wake(): void {
    this.#loop.wake();
  }

  close(): Promise<void> {
    return this.#loop.close();
  }

  /** Builds whatever is building. An index that fails delays no other; the first failure is thrown at the end. */
  async build(): Promise<void> {
    const { catalog, indexes } = this.#options;
    const failures: unknown[] = [];
    for (const account of catalog.accountNames) {
      for (const kept of await indexes.list(account)) {
        if (kept.index.state !== "building") continue;
        await this.#buildOne(account, kept).catch((error) => failures.push(error));
      }
    }
    if (failures.length > 0) throw failures[0];
  }

  async #buildOne(account: string, { index: { name, rate = BUILD_RATE } }: KeptIndex) {
    const batchMax = rate > 0 ? BATCH_ENTITIES : FAST_BATCH_ENTITIES;
    let batch = batchMax;
    while (!this.#loop.closed) {
      const began = performance.now();
      const done = await this.step(account, name, batch);
      if (done === "over" || done === "waiting") return;
      if (done === "lost") batch = Math.max(1, batch >>> 1);
      else {
        await pause(rate > 0 ? (batch * 1000) / rate - (performance.now() - began) : 0);
        batch = Math.min(batchMax, batch * 2);
      }
    }
  }

  /** Builds one batch of an index; "lost" if nothing was committed because others committed first. */
  async step(account: string, name: string, batch = BATCH_ENTITIES): Promise<BuildStep | "lost"> {
    const { engine, catalog, clock, indexes } = this.#options;
    const kept = await indexes.find(account, name);
    if (kept?.index.state !== "building") return "over";
    const { table, index } = kept;
    const version = engine.nextVersion();
    if (index.awaitsWriters && version - index.since < GRACE_MICROS) return "waiting";
    const accountId = catalog.accountId(account);
    const open = openIndex(accountId, index);
    const key = progressKey(accountId, index.id);
    const progress = await readProgress(engine, key);
    const prefix = tablePrefix(accountId, table.id);
    const start = progress
      ? positionKey(prefix, progress.next, engine.keyBytesMax)
      : partitionPrefixRange(prefix).start;
    const checks: Check[] = [];
    const puts: Put[] = [];
    let end = await engine.scan(
      { start, end: partitionPrefixRange(prefix).end },
      (entry) => {
        checks.push({ key: copyKey(entry.key), expected: entry.version });
        const own = entryOf(open, recordOf(entry), version);
        if (own) puts.push(own);
        return checks.length < batch;
      },
      { entriesExpected: batch },
    );
    if (end === "complete" && checks.length === 0) {
      await indexes.move(account, kept, ["building"], "ready");
      await forgetBuild(engine, accountId, index.id);
      return "over";
    }
    const last = checks.at(-1);
    if (typeof end !== "object") end = { resumeAt: after(last!.key) };
    const done = {
      next: {
        partitionKey: decodeText(end.resumeAt.partition, prefix.length),
        rowKey: decodeText(end.resumeAt.sort),
      },
      entities: (progress?.entities ?? 0) + checks.length,
      entries: (progress?.entries ?? 0) + puts.length,
      total: progress ? progress.total : await this.#count(partitionPrefixRange(prefix)),
      startedAt: progress?.startedAt ?? clock.now(),
    };
    const result = await engine.commit({
      version,
      premise: { key: table.key, version: table.version },
      checks: [...checks, { key, expected: progress?.version ?? "absent" }],
      puts: [...puts, { key, value: encodeProgress(done) }],
      deletes: [],
    });
    if (result.committed) return "built";
    // The table changed, in another way than by writes: nothing to divide.
    return result.failedCheck === PREMISE_FAILED ? "built" : "lost";
  }

  /** How much there is to build. An engine in another process would send all of it. */
  async #count(range: KeyRange): Promise<number | undefined> {
    const { engine } = this.#options;
    if (engine.newestCommit() === undefined) return undefined;
    let count = 0;
    await scanToEnd(engine, range, () => {
      count++;
      return true;
    });
    return count;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    if (ms < 1) setImmediate(resolve);
    else setTimeout(resolve, ms);
  });
}
