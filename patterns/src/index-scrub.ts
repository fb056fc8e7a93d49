import { assertSome, validationFailed } from "./errors.ts";
import { Pace } from "./indexes/build-range.ts";
import { claimsIn } from "./indexes/claims.ts";
import {
  type ManagedIndex,
  managedIndex,
  permittedUntil,
  widthOf,
  withDeadline,
} from "./indexes/control.ts";
import { fnv1a } from "./keys/hash.ts";
import { ageOf, hasKey, isSameKey } from "./model/entry.ts";
import type { AnyEntity, Snapshot } from "./model/follower.ts";
import { keepsRows, type Reconciled } from "./model/follower.ts";
import { isSameValue, type Properties } from "./ports/edm.ts";
import { and, bound, type Filter } from "./ports/filter.ts";
import { keyOf } from "./ports/mutation.ts";
import type { Continuation, EntityKey } from "./ports/tables.ts";
import { pagesWhere } from "./query/pages.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "./store/limit.ts";
import type { Session } from "./store/session.ts";
import { WRITE_TOKENS } from "./store/write-token.ts";

const SETTLE_MS = 60_000;
const EXAMPLES_MAX = 100;
const YOUNG_MAX = 1000;
/** About half a KiB each. */
const PAIRS_HELD = 50_000;
/** For the service a page of a thousand rows is about as much work as this many point queries. */
const LOOKUPS_PER_PAGE = 25;
const LOOKUPS_BETWEEN_TURNS = 200;
/** Any writer may change a list at any time, so the list's age says nothing about a member: it counts as settled. */
const LIST_MEMBER_AGE_MS = Number.POSITIVE_INFINITY;

export interface VerifyOptions {
  /** The share of rows to check, from 0 to 1. Default: all. */
  readonly sample?: number;
  /** Entities and entries read per second, at most; each is read at least twice. Default: as fast as possible. */
  readonly rate?: number;
  /** How many to hold in memory: fewer need less of it and more requests. Default: 50,000, of half a KiB each. */
  readonly held?: number;
  /** Continues from the progress that `onProgress` received last. Default: from the start. */
  readonly from?: VerifyProgress;
  readonly signal?: AbortSignal;
  /** Called each time as many as are held have been compared. */
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

/** A pair that should exist, or that does. */
interface Seen extends Pair {
  /** A digest of what the entry contains; absent if that is not compared. */
  readonly content?: string | undefined;
}

type Side = VerifyProgress["reading"];

/** One array of pairs for each entity, or for each entry. */
interface PageOfPairs {
  readonly items: readonly (readonly Seen[])[];
  readonly continuation?: Continuation | undefined;
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
 * Reads pages of one side, and finds their pairs in pages of the other: first the pairs that entities should have,
 * among the entries; then those that entries claim, among the entities. A pair that is not found takes this way:
 *
 *   not found ──▶ read, twice ─┬── right: a write was in progress, or it was not looked for any further
 *                              ├── younger than SETTLE_MS, or `later` from the repair ──▶ young
 *                              └── older ──▶ repaired if there is a `repair`, and counted
 *
 *   young ── after SETTLE_MS, a second look ──▶ right, counted, or reported as `young` if it is young again
 *
 * The second look also covers entries that the repair inserted, if no worker completes the writes of the index.
 * Everything a later call needs to continue after a crash is in `VerifyProgress`.
 */
class Scrub {
  readonly #index: ManagedIndex;
  readonly #requestsPerRepair: number;
  readonly #repair: ((finding: Finding) => Promise<Reconciled>) | undefined;
  readonly #sample: number;
  readonly #held: number;
  readonly #pace: Pace;
  readonly #onProgress: VerifyOptions["onProgress"];
  #progress: Progress;
  #isSecondLook = false;

  /** Passes each finding to `repair`, if there is one. */
  constructor(
    index: ManagedIndex,
    {
      sample = 1,
      rate = Number.POSITIVE_INFINITY,
      held = PAIRS_HELD,
      from = START,
      onProgress,
    }: VerifyOptions,
    repair?: (finding: Finding) => Promise<Reconciled>,
  ) {
    // A sample of nothing shows nothing.
    if (!(sample > 0)) throw validationFailed("The work", "sample", `${sample} is not above 0`);
    assertSome("The work", { held });
    const { session, entity, name, keeper } = index;
    this.#index = index;
    this.#repair = repair;
    this.#sample = sample;
    this.#held = held;
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
    if (reading === "entities") await this.#compare("entities");
    await this.#compare("entries");
    if (young.length > 0) {
      await this.#index.session.clock.sleep(SETTLE_MS);
      this.#isSecondLook = true;
      await this.#lookAtAll(young);
    }
    return report;
  }

  async #compare(side: Side): Promise<void> {
    const { random } = this.#index.session;
    const held = new Map<string, Seen>();
    for await (const { items, continuation } of this.#pages(side, this.#progress.cursor)) {
      const some = items.filter(() => random() < this.#sample);
      this.#progress.report[side] += some.length;
      // What an entry contains is compared once.
      for (const { content, ...pair } of some.flat())
        held.set(idOf(pair), side === "entities" ? { ...pair, content } : pair);
      if (!continuation || held.size < this.#held) continue;
      await this.#lookFor(held, side);
      this.#reportProgress(side, continuation);
    }
    await this.#lookFor(held, side);
    if (side === "entities") this.#reportProgress("entries", undefined);
  }

  async #lookFor(held: Map<string, Seen>, side: Side): Promise<void> {
    await this.#find(held, side === "entities" ? "entries" : "entities");
    // What the other side shows is found there.
    const isOfSide = ({ kind }: Finding) => (kind === "dangling") === (side === "entries");
    await this.#lookAtAll([...held.values()], isOfSide);
    held.clear();
  }

  /** Removes the pairs that are on the other side too, unless it costs more than to ask for each. */
  async #find(held: Map<string, Seen>, side: Side): Promise<void> {
    if (held.size === 0) return;
    // To ask for a member is to read its list.
    const isList = side === "entries" && !keepsRows(this.#index.keeper);
    let pagesLeft = isList ? Number.POSITIVE_INFINITY : Math.ceil(held.size / LOOKUPS_PER_PAGE);
    const keys = side === "entries" ? "entry" : "base";
    const partitions = Array.from(held.values(), (pair) => pair[keys].partitionKey).sort();
    const where = and(
      bound("PartitionKey", "ge", partitions[0]),
      bound("PartitionKey", "le", partitions.at(-1)),
    );
    for await (const { items } of this.#pages(side, undefined, where)) {
      for (const { content, ...pair } of items.flat()) {
        const id = idOf(pair);
        const sought = held.get(id);
        if (sought && (sought.content ?? content) === (content ?? sought.content)) held.delete(id);
      }
      if (held.size === 0 || --pagesLeft === 0) return;
    }
  }

  async *#pages(side: Side, from?: Continuation, where?: Filter): AsyncGenerator<PageOfPairs> {
    const pages = side === "entities" ? this.#entities(from, where) : this.#entries(from, where);
    for await (const page of pages) {
      await this.#turn(page.items.length);
      yield page;
    }
  }

  async *#entities(from?: Continuation, filter?: Filter): AsyncGenerator<PageOfPairs> {
    const { session, entity, keeper } = this.#index;
    const { rows, table } = entity;
    for await (const page of pagesWhere(session, table, { filter }, from)) {
      const items = page.entities.flatMap((stored) => {
        const row = rows.decode(stored);
        if (!row) return [];
        // We do not know everything that the entry of an entity written by a newer program should contain.
        const content =
          keepsRows(keeper) && !rows.isNewer(stored.properties)
            ? digestOf(keeper.contentOf({ row, stored }))
            : undefined;
        const base = keyOf(stored);
        return [keeper.keysOf(row).map((entry) => ({ base, entry, content }))];
      });
      yield { items, continuation: page.continuation };
    }
  }

  async *#entries(from?: Continuation, where?: Filter): AsyncGenerator<PageOfPairs> {
    for await (const { claims, continuation } of claimsIn(this.#index, { from, where })) {
      const items = claims.map(({ base, entry, stored }) => [
        { base, entry, content: stored && digestOf(stored.properties) },
      ]);
      yield { items, continuation };
    }
  }

  #reportProgress(reading: Side, cursor: Continuation | undefined): void {
    const { report, young } = this.#progress;
    this.#progress = { report, reading, young, ...(cursor && { cursor }) };
    this.#onProgress?.(structuredClone(this.#progress));
  }

  /** Waits until the rate allows this many more. */
  async #turn(rows: number): Promise<void> {
    const waitMs = this.#pace.waitMs();
    if (waitMs > 0) await this.#index.session.clock.sleep(waitMs);
    this.#pace.begin(rows);
  }

  async #lookAtAll(
    pairs: readonly Pair[],
    isCounted: (finding: Finding) => boolean = () => true,
  ): Promise<void> {
    const width = this.#repair ? widthOf(this.#index.keeper) : LOOKUPS_AT_ONCE;
    for (let i = 0; i < pairs.length; i += LOOKUPS_BETWEEN_TURNS) {
      const some = pairs.slice(i, i + LOOKUPS_BETWEEN_TURNS);
      await this.#turn(some.length);
      await mapBounded(some, width, async ({ base, entry }) => {
        for (const finding of await this.#look({ base, entry })) {
          // A write between the two reads looks like damage. What it wrote is young when it is read again.
          const sure = this.#isSecondLook ? [finding] : await this.#look(finding);
          for (const each of sure.filter(isCounted)) await this.#judge(each);
        }
      });
    }
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

  /** What is wrong with a pair. */
  async #look({ base, entry }: Pair): Promise<Aged[]> {
    const { stored, holder } = await this.#readBase({ base, entry });
    if (holder) return this.#lookForEntry(holder, entry);
    const age = await this.#ageOfClaim({ base, entry });
    if (age === undefined) return [];
    // A recent change may still be followed up.
    return [{ kind: "dangling", base, entry, age: stored ? Math.min(age, ageOf(stored)) : age }];
  }

  async #lookForEntry({ row, stored: base }: Snapshot, entry: EntityKey): Promise<Aged[]> {
    const keeper = this.#index.keeper;
    const found = (kind: Finding["kind"], age = LIST_MEMBER_AGE_MS) => [
      { kind, base: keyOf(base), entry, age: Math.min(age, ageOf(base)) },
    ];
    if (!keepsRows(keeper)) return (await keeper.membersOf(entry))(base) ? [] : found("missing");
    const stored = await this.#index.session.tables.get(keeper.table, entry);
    if (!stored) return found("missing");
    const age = ageOf(stored);
    if (!isSameKey(keeper.baseOf(stored), base)) return found("duplicate", age);
    const isRight =
      this.#index.entity.rows.isNewer(base.properties) ||
      hasContent(stored.properties, keeper.contentOf({ row, stored: base }));
    return isRight ? [] : found("wrong", age);
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

function idOf({ base, entry }: Pair): string {
  // No key contains NUL.
  return [base.partitionKey, base.rowKey, entry.partitionKey, entry.rowKey].join("\0");
}

/** Equal for most contents that `hasContent` finds equal; where it is not, both are read again. */
function digestOf(properties: Properties): string {
  const names = Object.keys(properties).sort();
  const values = names.map((name) => {
    const { type, value } = properties[name]!;
    if (name === WRITE_TOKENS) return name;
    return [name, type === "DateTime" ? Date.parse(String(value)) : value];
  });
  const content = JSON.stringify(values);
  return `${fnv1a(content)} ${content.length}`;
}

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
