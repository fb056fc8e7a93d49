import { entity, type Infer } from "./entities/entity.ts";
import { commitSteps, openEntity, timeLeft } from "./entities/write.ts";
import { assertSome, definitionRefused, validationFailed } from "./errors.ts";
import { bucketOf } from "./keys/hash.ts";
import { type KeyDeclaration, k } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import { padded } from "./keys/number.ts";
import { assertKeyFits, type Fields, type Row } from "./model/entity-rows.ts";
import { f } from "./model/field.ts";
import type { AnyEntity } from "./model/follower.ts";
import type { CheckedKey, KeyEquality } from "./model/key-query.ts";
import { type Openable, openable } from "./model/openable.ts";
import type { EntityKey, Page, StoredEntity } from "./ports/tables.ts";
import { pagesOf } from "./query/pages.ts";
import type { Saved } from "./query/query.ts";
import type { Interval } from "./rotation.ts";
import { isFresh } from "./store/clock.ts";
import { type JsonRow, jsonRow, mustWriteJson, readJson } from "./store/json-row.ts";
import type { Session } from "./store/session.ts";

export interface SpreadOptions<F extends Fields, S extends KeyDeclaration, At> {
  readonly fields: F;
  /** The key of what is read together. */
  readonly stream: S & CheckedKey<S, Infer<F>>;
  /** The date field that orders the stream. */
  readonly at: At;
  /** Partitions that share a stream, about 2,000 entities a second each. `grow` doubles the number later. */
  readonly buckets: number;
}

export type Spreadable<T> = T & { readonly entryId: string };

export interface Spread<T, S extends KeyDeclaration, At extends string> {
  /** `entryId` determines the bucket. Default: a ULID. 1 R, 1 E; and a read of the setting once a minute. */
  append(entry: T & { readonly entryId?: string }): Promise<Saved<Spreadable<T>>>;
  /** 1 R, 1 E: the bucket is computed. */
  get(
    key: KeyEquality<S> & { readonly [Name in At]: Date } & { readonly entryId: string },
  ): Promise<Saved<Spreadable<T>> | undefined>;
  /**
   * All buckets merged by time. If one bucket fails, the whole read fails: there are no silent gaps. A request
   * for each bucket and ⌈rows/1000⌉ R.
   */
  rangeInOrder(query: KeyEquality<S> & Interval): AsyncIterable<Saved<Spreadable<T>>>;
  /** In the order in which pages arrive. With `onError` the other buckets continue when one fails. */
  rangeUnordered(
    query: KeyEquality<S> & Interval,
    onError?: (partitionKey: string, error: unknown) => void,
  ): AsyncIterable<Saved<Spreadable<T>>>;
  /** Doubles the buckets for times from two minutes from now on. @returns the new number. */
  grow(stream: KeyEquality<S>): Promise<number>;
}

/** From `fromMs` on there are `buckets` buckets. */
type Setting = readonly [fromMs: number, buckets: number];

const SETTING = "rh_x";
const SETTING_ROW = "buckets";
const SETTING_KEPT_MS = 60_000;
/** How far times may be ahead of the clock, so that a writer with an old setting still finds the right bucket. */
const AHEAD_MAX_MS = 30_000;
/** How long writing the setting may take. */
const GROWTH_WRITE_MS = 5000;
/** Longer than these three together, with a margin for clocks that differ. */
const GROWTH_DELAY_MS = 120_000;
const BUCKETS_MAX = 256;
const STREAMS_REMEMBERED_MAX = 1000;

/** A stream too hot for one partition, spread over several that are read as one. */
export function spread<
  const F extends Fields,
  const S extends KeyDeclaration,
  const At extends keyof Infer<F> & string,
>(name: string, options: SpreadOptions<F, S, At>): Openable<Spread<Infer<F>, S, At>> {
  const { buckets } = options;
  assertSome(name, { buckets }, definitionRefused, BUCKETS_MAX);
  // In plain JavaScript; it would be ignored.
  if ("table" in options) throw definitionRefused(name, "table", "its table is named as it is");
  const stream: KeyDeclaration = options.stream;
  const definition: AnyEntity = entity(name, {
    version: 1,
    fields: { ...options.fields, entryId: f.string() } as Fields,
    key: {
      partition: stream as KeyDeclaration,
      row: [k.date(options.at), k.str("entryId")] as KeyDeclaration,
    },
  });
  return openable([name], (session) => new OpenSpread(session, definition, options.at, buckets));
}

class OpenSpread {
  readonly #session: Session;
  readonly #definition: AnyEntity;
  readonly #at: string;
  /** For streams that never grew. */
  readonly #first: readonly Setting[];
  readonly #settings = new Map<
    string,
    { readonly readAtMs: number; settings: Promise<readonly Setting[]> }
  >();

  constructor(session: Session, definition: AnyEntity, at: string, buckets: number) {
    this.#session = session;
    this.#definition = definition;
    this.#at = at;
    this.#first = [[Number.MIN_SAFE_INTEGER, buckets]];
  }

  async append(entry: Row): Promise<Row> {
    const { rows, table } = this.#definition;
    const row: Record<string, unknown> = Object.assign({}, entry);
    row.entryId ??= this.#session.writeToken();
    await rows.validate(row);
    const aheadMs = Number(row[this.#at]) - this.#session.clock.now();
    if (aheadMs > AHEAD_MAX_MS) {
      const message = `the time is ${Math.round(aheadMs / 1000)} s ahead of the clock; at most 30 are allowed`;
      throw validationFailed(table, this.#at, message);
    }
    const key = await this.#key(row);
    const token = this.#session.writeToken();
    const properties = rows.encode(row, token);
    const open = openEntity(this.#session, this.#definition);
    const lead = { kind: "insert", ...key, properties } as const;
    const change = { key, token, after: row };
    const [etag = ""] = await commitSteps([{ open, lead, change }]);
    return Object.assign(row, { etag });
  }

  async get(key: KeyValues): Promise<Row | undefined> {
    const { rows, table } = this.#definition;
    const stored = await this.#session.tables.get(table, await this.#key(key));
    return stored && this.#decode(stored, rows.partitionKey(key));
  }

  async *rangeInOrder(query: KeyValues & Interval): AsyncGenerator<Row> {
    const stream = this.#definition.rows.partitionKey(query);
    const buckets = await this.#bucketsOf(query);
    const sources = buckets.map((partitionKey) => new Source(this.#inOrder(partitionKey, query)));
    const begun = await Promise.all(sources.map((source) => source.turnPage()));
    const live = sources.filter((_, i) => begun[i]);
    try {
      while (live.length > 0) {
        let least = live[0]!;
        // A linear search: there are a few dozen buckets, and each step decodes a row anyway.
        for (const source of live) if (source.head.rowKey < least.head.rowKey) least = source;
        const row = this.#decode(least.head, stream);
        if (row) yield row;
        if (!least.step() && !(await least.turnPage())) live.splice(live.indexOf(least), 1);
      }
    } finally {
      for (const { pages } of live) await pages.return(undefined);
    }
  }

  async *rangeUnordered(
    query: KeyValues & Interval,
    onError?: (partitionKey: string, error: unknown) => void,
  ): AsyncGenerator<Row> {
    const stream = this.#definition.rows.partitionKey(query);
    const waiting = new Map<string, Promise<() => readonly StoredEntity[]>>();
    const advance = (partitionKey: string, pages: AsyncGenerator<Page>) => {
      const next = pages.next().then(
        ({ value, done }) =>
          () => {
            if (done) waiting.delete(partitionKey);
            else advance(partitionKey, pages);
            return done ? [] : value.entities;
          },
        (error) => () => {
          waiting.delete(partitionKey);
          if (!onError) throw error;
          onError(partitionKey, error);
          return [];
        },
      );
      waiting.set(partitionKey, next);
    };
    for (const partitionKey of await this.#bucketsOf(query)) {
      advance(partitionKey, this.#pagesOf(partitionKey, query));
    }
    while (waiting.size > 0) {
      const take = await Promise.race(waiting.values());
      for (const stored of take()) {
        const row = this.#decode(stored, stream);
        if (row) yield row;
      }
    }
  }

  async grow(query: KeyValues): Promise<number> {
    const { table, rows } = this.#definition;
    const stream = rows.partitionKey(query);
    const row = this.#settingRow(stream);
    assertKeyFits(row.key, this.#session.profile);
    const known = await readJson(row);
    const settings = known?.value ?? this.#first;
    const [fromMs, buckets] = settings.at(-1)!;
    const now = this.#session.clock.now();
    if (fromMs > now) {
      throw validationFailed(table, "buckets", `a change to ${buckets} is already pending`);
    }
    const next: Setting[] = [...settings, [now + GROWTH_DELAY_MS, buckets * 2]];
    // Written later, it would reach some writers after the first entry that it applies to.
    const inTime = timeLeft(this.#session, now + GROWTH_WRITE_MS, SETTING_ROW);
    const lost = "Another process is changing the number of buckets.";
    await mustWriteJson(row, next, known, lost, undefined, inTime);
    this.#settings.delete(stream);
    return buckets * 2;
  }

  async *#inOrder(partitionKey: string, query: KeyValues & Interval): AsyncGenerator<Page> {
    const pages = this.#pagesOf(partitionKey, query);
    if (this.#session.profile.ordered) return yield* pages;
    const entities: StoredEntity[] = [];
    for await (const page of pages) entities.push(...page.entities);
    yield { entities: entities.sort((a, b) => (a.rowKey < b.rowKey ? -1 : 1)) };
  }

  #pagesOf(partitionKey: string, { from, to }: Interval): AsyncGenerator<Page> {
    const { rows, table } = this.#definition;
    const range = rows.row.rangeOf({ [this.#at]: { gte: from, lt: to } });
    return pagesOf(this.#session, table, { partitionKey, rows: range });
  }

  #decode(stored: StoredEntity, stream: string): Row | undefined {
    return this.#definition.rows.decode({ ...stored, partitionKey: stream });
  }

  /** Uses the setting at the entry's own time, so that every client computes the same bucket. */
  async #key(values: Row): Promise<EntityKey> {
    const { partitionKey: stream, rowKey } = this.#definition.rows.key(
      values,
      this.#session.profile,
    );
    const time = Number(values[this.#at]);
    const [, buckets] = (await this.#settingsOf(stream)).findLast(([fromMs]) => fromMs <= time)!;
    const bucket = bucketOf(String(values.entryId), buckets);
    const key = { partitionKey: this.#partition(bucket, stream), rowKey };
    assertKeyFits(key, this.#session.profile);
    return key;
  }

  async #bucketsOf(query: KeyValues & Interval): Promise<string[]> {
    const stream = this.#definition.rows.partitionKey(query);
    const settings = await this.#settingsOf(stream);
    const names = new Set<string>();
    for (const [i, [fromMs, buckets]] of settings.entries()) {
      const endMs = settings[i + 1]?.[0] ?? Number.POSITIVE_INFINITY;
      if (Number(query.to) <= fromMs || Number(query.from) >= endMs) continue;
      const width = String(buckets - 1).length;
      for (let bucket = 0; bucket < buckets; bucket++) names.add(padded(bucket, width));
    }
    return Array.from(names, (bucket) => this.#partition(bucket, stream));
  }

  #settingsOf(stream: string): Promise<readonly Setting[]> {
    const { clock } = this.#session;
    const known = this.#settings.get(stream);
    if (known && isFresh(clock, known.readAtMs, SETTING_KEPT_MS)) return known.settings;
    if (this.#settings.size >= STREAMS_REMEMBERED_MAX) this.#settings.clear();
    const read = readJson(this.#settingRow(stream));
    const settings = read.then((row) => row?.value ?? this.#first);
    this.#settings.set(stream, { readAtMs: clock.now(), settings });
    settings.catch(() => this.#settings.delete(stream));
    return settings;
  }

  #settingRow(stream: string): JsonRow<readonly Setting[]> {
    const key = { partitionKey: this.#partition(SETTING_ROW, stream), rowKey: SETTING_ROW };
    return jsonRow(this.#session, this.#definition.table, key, SETTING);
  }

  #partition(bucket: string, stream: string): string {
    return bucket + this.#definition.rows.partition.separator + stream;
  }
}

/** The rows of one bucket. Only pages are awaited: awaiting each row took a tenth of a merge's CPU. */
class Source {
  readonly pages: AsyncGenerator<Page>;
  #entities: readonly StoredEntity[] = [];
  #at = 0;

  constructor(pages: AsyncGenerator<Page>) {
    this.pages = pages;
  }

  get head(): StoredEntity {
    return this.#entities[this.#at]!;
  }

  /** False at the end of the page. */
  step(): boolean {
    return ++this.#at < this.#entities.length;
  }

  /** Moves to the first row of the next page that has any. False at the end. */
  async turnPage(): Promise<boolean> {
    this.#at = 0;
    do {
      const { value, done } = await this.pages.next();
      if (done) return false;
      this.#entities = value.entities;
    } while (this.#entities.length === 0);
    return true;
  }
}
