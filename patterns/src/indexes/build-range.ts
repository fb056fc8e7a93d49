import { isTableError, validationFailed } from "../errors.ts";
import { within } from "../keys/key-range.ts";
import { and, type Filter, inRange } from "../ports/filter.ts";
import { printKey } from "../ports/mutation.ts";
import type { EntityKey } from "../ports/tables.ts";
import { pagesWhere } from "../query/pages.ts";
import type { Clock } from "../store/clock.ts";
import { mapBounded } from "../store/limit.ts";
import { claimsIn, PAGE_ROWS_MAX } from "./claims.ts";
import { type BuildProgress, type ManagedIndex, OWNER_MS, widthOf } from "./control.ts";

export const BUILD_ENTITIES_PER_SECOND = 200;
/** When to retry a value whose owner is not certain yet. */
const RETRY_MS = 30_000;
const DUPLICATES_MAX = 1000;
/** As JSON: a property holds 32,768 characters. */
const DUPLICATES_LENGTH_MAX = 28_000;
/** The build gives up when the service still pushes back at this fraction of the rate. */
const SLOWDOWN_MAX = 16;

/*
 * A build (index-build.ts) calls `repairExisting` once, when all writers maintain the index, and then `buildRange` for
 * each shard of the collection. Each page goes through `reconciled`:
 *
 *   read a page ──▶ reconcile each entity ──┬── done, duplicate ──▶ save the progress ──▶ next page
 *                     ▲                     ├── later ──▶ wait RETRY_MS ──────┐
 *                     │                     └── throttled ──▶ half the pace ──┤
 *                     └──────── confirm the ownership, repeat the rest ◀──────┘
 *
 * After a crash another process continues behind the last saved page. At most one page is repeated, which is
 * harmless: `reconcile` is idempotent and safe alongside any writer.
 */

/** A build, or a part of one. */
export interface RangeBuild {
  readonly index: ManagedIndex;
  /** The partitions to build. Default: all. */
  readonly filter?: Filter | undefined;
  readonly pace: Pace;
  /** Records the progress, and that this process is still working. Rejects when another process has taken over. */
  save(progress: BuildProgress): Promise<unknown>;
}

/** Writes the entries for the range, from where `progress` ends, one page at a time. */
export async function buildRange(
  range: RangeBuild,
  progress: BuildProgress,
): Promise<BuildProgress> {
  const { index, pace, save } = range;
  const { session, entity, keeper } = index;
  const filter = and(range.filter, inRange(undefined, within(entity.rows.row.prefix)));
  const confirm = () => save(progress);
  await waiting(session.clock, pace.waitMs(), confirm);
  const pages = pagesWhere(session, entity.table, { filter, top: PAGE_ROWS_MAX }, progress.cursor);
  for await (const { entities, continuation } of pages) {
    const bases = entities.flatMap((stored) => {
      const row = entity.rows.decode(stored);
      // The keys of its entries are known, so `reconcile` need not read the entity to compute them first.
      return row ? [{ stored, keys: keeper.keysOf(row) }] : [];
    });
    const { written, duplicates } = await reconciled(index, bases, pace, confirm);
    progress = {
      done: progress.done + bases.length,
      written: progress.written + written,
      errors: progress.errors + duplicates.length,
      duplicates: recordedOf([...progress.duplicates, ...duplicates]),
      ...(continuation && { cursor: continuation }),
    };
    await save(progress);
    if (continuation) await waiting(session.clock, pace.waitMs(), confirm);
  }
  return progress;
}

/**
 * Writers learn about a build one after the other: some already maintain entries while others do not. Once all
 * maintain them, and before the first entity is read, the entries that exist are repaired; they are few.
 */
export async function repairExisting(
  index: ManagedIndex,
  pace: Pace,
  confirm: () => Promise<unknown>,
): Promise<void> {
  for await (const { claims, continuation } of claimsIn(index, { top: PAGE_ROWS_MAX })) {
    const bases = claims.map(({ base, entry }) => ({ stored: base, keys: [entry] }));
    await reconciled(index, bases, pace, confirm);
    if (continuation) await confirm();
  }
}

/** The first of them, up to the number that is recorded. */
export function recordedOf(duplicates: readonly string[]): string[] {
  let length = 0;
  return duplicates.slice(0, DUPLICATES_MAX).filter((key) => {
    length += JSON.stringify(key).length + 1;
    return length <= DUPLICATES_LENGTH_MAX;
  });
}

/**
 * Writes the entries of these entities. Calls `confirm`, which renews the ownership of the work, before each retry:
 * there may be many, or the process may have been suspended.
 * @returns the number of entries written, and the entities whose value belongs to another.
 */
async function reconciled(
  { session: { clock }, keeper }: ManagedIndex,
  bases: readonly { readonly stored: EntityKey; readonly keys: readonly EntityKey[] }[],
  pace: Pace,
  confirm: () => Promise<unknown>,
): Promise<{ readonly written: number; readonly duplicates: string[] }> {
  const duplicates: string[] = [];
  let written = 0;
  for (let left = bases; left.length > 0; ) {
    pace.begin(left.length);
    try {
      const outcomes = await mapBounded(left, widthOf(keeper), ({ stored, keys }) =>
        keeper.reconcile(stored, keys),
      );
      pace.faster();
      for (const [i, outcome] of outcomes.entries()) {
        if (outcome === "done") written += left[i]!.keys.length;
        if (outcome === "duplicate") duplicates.push(printKey(left[i]!.stored));
      }
      left = left.filter((_base, i) => outcomes[i] === "later");
    } catch (error) {
      if (!isTableError(error, "throttled") || !pace.slower()) throw error;
      await waiting(clock, pace.waitMs(), confirm);
      await confirm();
      continue;
    }
    // A writer that gave up or is about to commit has claimed the value. Wait until that is certain.
    if (left.length === 0) break;
    await waiting(clock, RETRY_MS, confirm);
    await confirm();
  }
  return { written, duplicates };
}

/** Sleeps in steps and calls `confirm` between them, so that this process remains the owner. */
async function waiting(clock: Clock, ms: number, confirm: () => Promise<unknown>): Promise<void> {
  const step = OWNER_MS / 2;
  for (let left = ms; left > 0; left -= step) {
    await clock.sleep(Math.min(left, step));
    if (left > step) await confirm();
  }
}

/**
 * Keeps to a number of entities per second: half as many when the service pushes back, then more again with
 * every page. It does not make up for lost time.
 */
export class Pace {
  readonly #clock: Clock;
  readonly #rate: number;
  #now: number;
  /** How long to wait for what began last, and when that was. */
  #owedMs = 0;
  #begunAtMs = 0;

  constructor(clock: Clock, rate: number) {
    // At a rate of 0 it would wait for ever, and with NaN not at all.
    if (!(rate > 0)) throw validationFailed("The work", "rate", `${rate} is not above 0`);
    this.#clock = clock;
    this.#rate = rate;
    this.#now = rate;
  }

  /** Reserves the time for this many entities. */
  begin(entities: number): void {
    this.#owedMs = this.waitMs() + (entities * 1000) / this.#now;
    this.#begunAtMs = this.#clock.now();
  }

  /** The time until the next may begin. A clock that was set back counts as standing still. */
  waitMs(): number {
    return Math.max(0, this.#owedMs - Math.max(0, this.#clock.now() - this.#begunAtMs));
  }

  faster(): void {
    this.#now = Math.min(this.#rate, this.#now * 1.1);
  }

  /** False when it cannot go slower. */
  slower(): boolean {
    this.#now /= 2;
    return this.#now * SLOWDOWN_MAX >= this.#rate;
  }
}
