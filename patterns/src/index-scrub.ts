import { validationFailed } from "./errors.ts";
import { Pace } from "./indexes/build-range.ts";
import { type Claim, claimsIn, LIST_MEMBER_AGE_MS, PAGE_ROWS_MAX } from "./indexes/claims.ts";
import {
  type ManagedIndex,
  managedIndex,
  permittedUntil,
  widthOf,
  withDeadline,
} from "./indexes/control.ts";
import { ageOf, hasKey, isSameKey } from "./model/entry.ts";
import type { AnyEntity, Snapshot } from "./model/follower.ts";
import { keepsRows, type ListKeeper, type Reconciled } from "./model/follower.ts";
import { isSameValue, type Properties } from "./ports/edm.ts";
import { keyOf } from "./ports/mutation.ts";
import type { Continuation, EntityKey, StoredEntity } from "./ports/tables.ts";
import { pagesWhere } from "./query/pages.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "./store/limit.ts";
import type { Session } from "./store/session.ts";
import { WRITE_TOKENS } from "./store/write-token.ts";

const SETTLE_MS = 60_000;
const EXAMPLES_MAX = 100;
const YOUNG_MAX = 1000;

export interface VerifyOptions {
  /** The share of rows to check, from 0 to 1. Default: all. */
  readonly sample?: number;
  /** Entities and entries per second, at most. Default: as fast as possible. */
  readonly rate?: number;
  /** Continues from the progress that `onProgress` received last. Default: from the start. */
  readonly from?: VerifyProgress;
  readonly signal?: AbortSignal;
  /** Called after each page. */
  readonly onProgress?: (progress: VerifyProgress) => void;
}

/** How far it got: plain data that may be stored as JSON. */
export interface VerifyProgress {
  readonly report: VerifyReport;
  /** What is being read: every entity, then every entry. */
  readonly reading: "entities" | "entries";
  readonly cursor?: Continuation;
  /** To be checked again at the end. */
  readonly young: readonly Pair[];
}

export interface VerifyReport {
  readonly entities: number;
  readonly entries: number;
  /** Entities whose entry is missing, entries with the wrong content, entries without an entity. */
  readonly missing: number;
  readonly wrong: number;
  readonly dangling: number;
  /** Entities whose value belongs to another. */
  readonly duplicate: number;
  /** The approximate number of requests to repair the findings: what a build sends for as many entities. */
  readonly repairRequests: number;
  /** Not judged, because at a second look, a minute later, a write may still have been in progress. */
  readonly young: number;
  readonly examples: readonly Finding[];
}

/** The same while it is being filled. */
type Mutable<Data> = { -readonly [Name in keyof Data]: Data[Name] };

interface Progress extends Omit<VerifyProgress, "report" | "young"> {
  readonly report: Mutable<VerifyReport> & { readonly examples: Finding[] };
  readonly young: Pair[];
}

interface Pair {
  readonly base: EntityKey;
  readonly entry: EntityKey;
}

export interface Finding extends Pair {
  readonly kind: "missing" | "wrong" | "dangling" | "duplicate";
}

interface Aged extends Finding {
  readonly age: number;
}

const START: VerifyProgress = {
  report: {
    entities: 0,
    entries: 0,
    missing: 0,
    wrong: 0,
    dangling: 0,
    duplicate: 0,
    repairRequests: 0,
    young: 0,
    examples: [],
  },
  reading: "entities",
  young: [],
};

/**
 * Compares every entity with its entries, and every entry with its entity. Changes nothing. A mismatch that may
 * be a write in progress is checked again after a minute.
 */
export async function verifyIndex(
  session: Session,
  entity: AnyEntity,
  name: string,
  { signal, ...options }: VerifyOptions = {},
): Promise<VerifyReport> {
  return new Scrub(managedIndex(session.until(signal), entity, name), options).run();
}

/** Verifies and repairs what it finds; `readable-dups` becomes `readable` when no duplicate is left. */
export async function repairIndex(
  session: Session,
  entity: AnyEntity,
  name: string,
  { signal, ...options }: VerifyOptions = {},
): Promise<VerifyReport> {
  const index = managedIndex(session.until(signal), entity, name);
  const { control } = index;
  const permittedUntilMs = permittedUntil(index, "repaired");
  await permittedUntilMs();
  // A repair does what the workers do.
  const { keeper } = withDeadline(index, permittedUntilMs);
  const repair = ({ kind, base, entry }: Finding) =>
    keeper.reconcile(base, [entry], kind === "wrong");
  const report = await new Scrub(index, options, repair).run();
  const found = await control.read();
  const isWhole = options.sample === undefined && report.duplicate + report.young === 0;
  if (found.control.state === "readable-dups" && isWhole)
    await control.write({ state: "readable" }, found.row);
  return report;
}

/**
 * Reads every entity and looks for its entries, then every entry and looks for its base. A mismatch takes this way:
 *
 *   found ──▶ read again ──┬── gone: a write was in progress
 *                          ├── younger than SETTLE_MS, or `later` from the repair ──▶ young
 *                          └── older ──▶ repaired if there is a `repair`, and counted
 *
 *   young ── after SETTLE_MS, a second look ──▶ gone, counted, or reported as `young` if it is young again
 *
 * The second look also covers entries that the repair inserted, if no worker completes the writes of the index.
 * Everything a later call needs to continue after a crash is in `VerifyProgress`.
 */
class Scrub {
  readonly #index: ManagedIndex;
  readonly #requestsPerRepair: number;
  readonly #repair: ((finding: Finding) => Promise<Reconciled>) | undefined;
  readonly #sample: number;
  readonly #pace: Pace;
  readonly #onProgress: VerifyOptions["onProgress"];
  #progress: Progress;
  #isSecondLook = false;

  /** Passes each finding to `repair`, if there is one. */
  constructor(
    index: ManagedIndex,
    { sample = 1, rate = Number.POSITIVE_INFINITY, from = START, onProgress }: VerifyOptions,
    repair?: (finding: Finding) => Promise<Reconciled>,
  ) {
    // A sample of nothing shows nothing.
    if (!(sample > 0)) throw validationFailed("The work", "sample", `${sample} is not above 0`);
    const { session, entity, name, keeper } = index;
    this.#index = index;
    this.#repair = repair;
    this.#sample = sample;
    this.#pace = new Pace(session.clock, rate);
    this.#onProgress = onProgress;
    this.#progress = structuredClone(from) as Progress;
    // One transaction repairs an entry next to its entity or in a list; elsewhere the entity is read twice.
    const isInBasePartition =
      entity.indexes[name]?.place(entity).partition === entity.rows.partition;
    this.#requestsPerRepair = keepsRows(keeper) && !isInBasePartition ? 4 : 3;
  }

  async run(): Promise<VerifyReport> {
    const { reading, young, report } = this.#progress;
    if (reading === "entities") await this.#readEntities();
    await this.#readEntries();
    if (young.length > 0) {
      await this.#index.session.clock.sleep(SETTLE_MS);
      this.#isSecondLook = true;
      await this.#lookAtAll(young, (pair) => this.#lookAgain(pair));
    }
    return report;
  }

  async #readEntities(): Promise<void> {
    const { rows, table } = this.#index.entity;
    const where = { filter: undefined, top: PAGE_ROWS_MAX };
    const pages = pagesWhere(this.#index.session, table, where, this.#progress.cursor);
    for await (const { entities, continuation } of pages) {
      const bases = entities.filter((stored) => rows.decode(stored));
      const lists: Lists = new Map();
      await this.#lookAtSome("entities", bases, (base) => this.#lookForEntries(base, lists));
      this.#reportProgress(continuation ? "entities" : "entries", continuation);
    }
  }

  async #readEntries(): Promise<void> {
    const pages = claimsIn(this.#index, this.#progress.cursor);
    for await (const { claims, continuation } of pages) {
      await this.#lookAtSome("entries", claims, (claim) => this.#lookForBase(claim));
      if (continuation) this.#reportProgress("entries", continuation);
    }
  }

  #reportProgress(reading: VerifyProgress["reading"], cursor: Continuation | undefined): void {
    const { report, young } = this.#progress;
    this.#progress = { report, reading, young, ...(cursor && { cursor }) };
    this.#onProgress?.(structuredClone(this.#progress));
  }

  async #lookAtSome<Item>(
    reading: VerifyProgress["reading"],
    items: readonly Item[],
    look: (item: Item) => Promise<readonly Aged[]>,
  ): Promise<void> {
    const some = items.filter(() => this.#index.session.random() < this.#sample);
    this.#progress.report[reading] += some.length;
    await this.#lookAtAll(some, look);
  }

  async #lookAtAll<Item>(
    items: readonly Item[],
    look: (item: Item) => Promise<readonly Aged[]>,
  ): Promise<void> {
    const waitMs = this.#pace.waitMs();
    if (waitMs > 0) await this.#index.session.clock.sleep(waitMs);
    this.#pace.begin(items.length);
    const width = this.#repair ? widthOf(this.#index.keeper) : LOOKUPS_AT_ONCE;
    await mapBounded(items, width, async (item) => {
      for (const finding of await look(item)) {
        // A write between the two reads looks like damage. What it wrote is young when it is read again.
        const sure = this.#isSecondLook ? [finding] : await this.#lookAgain(finding);
        for (const each of sure) await this.#judge(each);
      }
    });
  }

  async #judge({ age, kind, ...pair }: Aged): Promise<void> {
    const { report, young } = this.#progress;
    const outcome = age < SETTLE_MS ? "later" : await this.#repair?.({ kind, ...pair });
    // Another entity may have received the missing entry since.
    const isTaken = kind === "missing" && outcome === "duplicate";
    const finding = { kind: isTaken ? outcome : kind, ...pair };
    const isTooEarly = outcome === "later";
    if (!isTooEarly) {
      report[finding.kind]++;
      report.repairRequests += this.#requestsPerRepair;
      if (report.examples.length < EXAMPLES_MAX) report.examples.push(finding);
    }
    // A writer that did not see the entry we inserted may have committed, and no worker repairs it.
    const mayBeStale = outcome && finding.kind === "missing" && this.#index.keeper.isLeftToScrub;
    const isOpen = isTooEarly || mayBeStale;
    if (isOpen && young.length < YOUNG_MAX && !this.#isSecondLook) young.push(pair);
    else if (isTooEarly) report.young++;
  }

  async #lookForEntries(base: StoredEntity, lists: Lists): Promise<Aged[]> {
    const row = this.#index.entity.rows.decode(base)!;
    const findings = await mapBounded(this.#index.keeper.keysOf(row), LOOKUPS_AT_ONCE, (key) =>
      this.#lookForEntry({ row, stored: base }, key, lists),
    );
    return findings.flat();
  }

  async #lookForEntry(
    { row, stored: base }: Snapshot,
    entry: EntityKey,
    lists: Lists = new Map(),
  ): Promise<Aged[]> {
    const keeper = this.#index.keeper;
    const found = (kind: Finding["kind"], age = LIST_MEMBER_AGE_MS) => [
      { kind, base: keyOf(base), entry, age: Math.min(age, ageOf(base)) },
    ];
    if (!keepsRows(keeper)) {
      const id = JSON.stringify(entry);
      const list = lists.get(id) ?? keeper.membersOf(entry);
      lists.set(id, list);
      return (await list)(base) ? [] : found("missing");
    }
    const stored = await this.#index.session.tables.get(keeper.table, entry);
    if (!stored) return found("missing");
    const age = ageOf(stored);
    if (!isSameKey(keeper.baseOf(stored), base)) return found("duplicate", age);
    // We do not know everything that the entry of an entity written by a newer program should contain.
    const isRight =
      this.#index.entity.rows.isNewer(base.properties) ||
      hasContent(stored.properties, keeper.contentOf({ row, stored: base }));
    return isRight ? [] : found("wrong", age);
  }

  async #lookForBase({ age, ...pair }: Claim): Promise<Aged[]> {
    const { stored, holder } = await this.#readBase(pair);
    if (holder) return [];
    // A recent change may still be followed up.
    return [{ kind: "dangling", ...pair, age: stored ? Math.min(age, ageOf(stored)) : age }];
  }

  /** Looks again at a pair that a write may have been changing. */
  async #lookAgain({ base, entry }: Pair): Promise<Aged[]> {
    const { holder } = await this.#readBase({ base, entry });
    if (holder) return this.#lookForEntry(holder, entry);
    const age = await this.#ageOfClaim({ base, entry });
    return age === undefined ? [] : this.#lookForBase({ base, entry, age });
  }

  /** Undefined when the entry does not belong to this base, or is gone. */
  async #ageOfClaim({ base, entry }: Pair): Promise<number | undefined> {
    const keeper = this.#index.keeper;
    if (!keepsRows(keeper))
      return (await keeper.membersOf(entry))(base) ? LIST_MEMBER_AGE_MS : undefined;
    const stored = await this.#index.session.tables.get(keeper.table, entry);
    return stored && isSameKey(keeper.baseOf(stored), base) ? ageOf(stored) : undefined;
  }

  /** The entity as it is stored. It is also the `holder` if it should have the entry. */
  async #readBase({ base, entry }: Pair) {
    const stored = await this.#index.session.tables.get(this.#index.entity.table, base);
    const row = stored && this.#index.entity.rows.decode(stored);
    const isHolder = row && hasKey(this.#index.keeper.keysOf(row), entry);
    return { stored, holder: isHolder ? { row, stored } : undefined };
  }
}

/** The lists that were read for a page of entities, each once. */
type Lists = Map<string, ReturnType<ListKeeper["membersOf"]>>;

/**
 * Whether an entry has the expected content, whichever write it is from. Some clients store the Double 4 as an
 * Int32.
 */
function hasContent(found: Properties, expected: Properties): boolean {
  return (
    Object.keys(found).length === Object.keys(expected).length &&
    Object.entries(expected).every(([name, value]) => {
      const said = found[name];
      return said && (name === WRITE_TOKENS || isSameValue(said, value));
    })
  );
}
