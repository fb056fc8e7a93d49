import { deleteRows } from "./bulk-delete.ts";
import { latest, readAt, retryWhileStale, Stale, timeLeft } from "./entities/write.ts";
import { assertSome, definitionRefused, tableError, validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import { padded } from "./keys/number.ts";
import { endOf } from "./keys/text.ts";
import { ListBlobs } from "./lists/list-blobs.ts";
import {
  digitsOf,
  encodingNamed,
  idsThatFit,
  LIST_ENCODINGS,
  type ListEncodingName,
} from "./lists/list-encoding.ts";
import { listOf, withMember } from "./lists/queued-list.ts";
import { assertKeyFits, type Row } from "./model/entity-rows.ts";
import { EntryKeys, entriesOf, entryProblems, hasKey } from "./model/entry.ts";
import type { Each } from "./model/entry-options.ts";
import type { AnyEntity, Change, Contribution, FollowerContext } from "./model/follower.ts";
import {
  Index,
  type IndexKind,
  type Listed,
  type ListKeeper,
  type OpenIndex,
  type Reconciled,
} from "./model/follower.ts";
import type { KeyEquality } from "./model/key-query.ts";
import { nameProblems } from "./model/storage-name.ts";
import { type Properties, STRING_LENGTH_MAX, text } from "./ports/edm.ts";
import { deleteOf, mergeNothing, writeOver } from "./ports/mutation.ts";
import type { Continuation, EntityKey, Mutation, Page, StoredEntity } from "./ports/tables.ts";
import { pagesOf, pagesWhere } from "./query/pages.ts";
import type { Saved } from "./query/query.ts";
import { commitIfCurrent } from "./store/commit-if-current.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "./store/limit.ts";
import { tokensAfter, tokensOf } from "./store/write-token.ts";

export interface ListOptions<R extends KeyDeclaration> {
  /** The list's row key: a literal of its own, then the value its members share. */
  readonly row: R;
  /** The property that holds the members, such as `EmployeeIDs`. */
  readonly property: string;
  /** Pure. Entities for which it returns false are in no list. */
  readonly when?: (entity: Row) => boolean;
  readonly each?: Each;
  /** How a property holds ids. Default: "csv". Packed ids are numbers of at most 32 bits, in 4 bytes each. */
  readonly encoding?: ListEncodingName;
  /**
   * What a list may turn into when it outgrows one property, each including those before it: nothing (it is
   * refused), up to 15 properties, up to 16 rows, a blob.
   */
  readonly spill?: "none" | "properties" | "entities" | "blob";
  /** The container for lists whose `spill` is "blob". */
  readonly container?: string;
  /** Characters in one property, two bytes each. At most 32,768, the default. */
  readonly propertyLengthMax?: number;
  /** Rows of one list. At most 16, the default. */
  readonly rowsMax?: number;
}

interface ListKind<R extends KeyDeclaration> extends IndexKind {
  readonly api: ListApi<this["entity"], KeyEquality<this["partition"]> & KeyEquality<R>>;
}

interface ListApi<T, Value> {
  /**
   * The row keys of the members without their leading literals, sorted. 1 R, 1 E; 2 R for several rows or a
   * blob.
   */
  ids(value: Value): Promise<string[]>;
  /** The members, without those that other software listed wrongly. m R and E besides those of `ids`. */
  get(value: Value): Promise<Saved<T>[]>;
  /**
   * Deletes blobs that hold no list and are older than `olderThanMs` (default: a day). Within an hour, plus the
   * difference between clocks, a list may still come to be in one. @returns how many.
   */
  collect(olderThanMs?: number): Promise<number>;
}

const PROPERTIES_MAX = 15;
/** How a list is encoded, or that it is in a blob, which the property names. */
const ENCODING = "rh_x";
const IN_BLOB = "blob";
/** A write of a list reads all its rows, and a move to a blob changes all of them in one transaction. */
const ROWS_MAX = 16;

/**
 * One row for each value, with the ids of the entities that have it, in their own partition and written in the
 * same transaction. For small sets that are read far more often than they change; a sibling index has no
 * limits.
 */
export function listIndex<const R extends KeyDeclaration>(options: ListOptions<R>): ListIndex<R> {
  return new ListIndex(options);
}

export class ListIndex<R extends KeyDeclaration> extends Index<ListKind<R>> {
  declare readonly options: ListOptions<R>;

  constructor(options: ListOptions<R>) {
    super(options, { row: options.row });
    const { rowsMax = ROWS_MAX, propertyLengthMax = STRING_LENGTH_MAX } = options;
    // With NaN a list would be written without its members.
    assertSome("The list", { rowsMax }, definitionRefused, ROWS_MAX);
    assertSome("The list", { propertyLengthMax }, definitionRefused, STRING_LENGTH_MAX);
  }

  problems(entity: AnyEntity, name: string): string[] {
    const problems = entryProblems(this, entity, name);
    if (entity.rows.row.segments.some(({ form }) => form !== "fixed")) {
      problems.push("lists row keys that may contain a comma: give them segments of fixed width");
    }
    if (!/^[A-Za-z_]\w*$/.test(this.options.property)) {
      problems.push(`has the illegal property name "${this.options.property}"`);
    }
    const { encoding, spill, container } = this.options;
    if (encoding === "packed" && digitsOf(entity.rows.row) === undefined) {
      problems.push("packs row keys other than literals before one number of at most 10 digits");
    }
    if (spill === "blob" && container === undefined) {
      problems.push("may move to a blob: name a container");
    }
    problems.push(...nameProblems({ container }));
    return problems;
  }

  follow(context: FollowerContext): OpenIndex {
    const open = new OpenList(this, context);
    return { api: open, prepare: (change) => open.prepare(change), keeper: open };
  }
}

/** Follows a list's row key in the keys of its further rows; sorts below everything that codecs emit. */
const FURTHER = "!";
const ROUNDS_MAX = 8;
const BACKOFF_MS = 200;

/** A list as it was read: the rows in the order of their members, or the one that names the blob. */
interface ListRead {
  readonly rows: readonly StoredEntity[];
  readonly blob: string | undefined;
  readonly ids: string[];
}

/**
 * A list is the union of its rows. A writer that adds a member writes the row of its neighbours, and splits the
 * row in two when it is full. The entity's own ETag decides who may list it; the ETags of the rows keep them
 * from being overwritten.
 */
class OpenList implements ListKeeper {
  readonly #context: FollowerContext;
  readonly #entries: EntryKeys;
  readonly #property: string;
  readonly #propertyLengthMax: number;
  /** Properties per row. */
  readonly #propertiesMax: number;
  readonly #rowsMax: number;
  readonly #encoding: ListEncodingName;
  /** The width of packed ids. */
  readonly #digits: number;
  readonly #blobs: ListBlobs | undefined;

  constructor(index: ListIndex<KeyDeclaration>, context: FollowerContext) {
    const {
      property,
      encoding = "csv",
      spill = "none",
      container = "",
      propertyLengthMax = STRING_LENGTH_MAX,
      rowsMax = ROWS_MAX,
    } = index.options;
    this.#context = context;
    this.#entries = new EntryKeys(context, index);
    this.#property = property;
    this.#propertyLengthMax = propertyLengthMax;
    this.#propertiesMax = spill === "none" ? 1 : PROPERTIES_MAX;
    this.#encoding = encoding;
    this.#digits = digitsOf(context.entity.rows.row) ?? 0;
    this.#blobs = spill === "blob" ? new ListBlobs(context, property, container) : undefined;
    this.#rowsMax = spill === "entities" || this.#blobs ? rowsMax : 1;
  }

  async prepare({ key, before, after, token }: Change): Promise<Contribution> {
    const oldKeys = this.keysOf(before?.row);
    const newKeys = this.keysOf(after);
    // Other software writes rows without tokens, and lists them nowhere.
    const isListed = before && tokensOf(before.stored.properties) !== undefined;
    const id = this.#idOf(key);
    const left = oldKeys.filter((list) => !hasKey(newKeys, list));
    const joined = newKeys.filter((list) => !isListed || !hasKey(oldKeys, list));
    const changes = await Promise.all([
      ...left.map(async (list) => this.#change(list, await this.#read(list), id, false, token)),
      ...joined.map(async (list) => this.#change(list, await this.#read(list), id, true, token)),
    ]);
    return {
      mutations: changes.flatMap(({ mutations = [] }) => mutations),
      commitByMs: latest(changes),
      explain: async () => "retry",
      committed: async (etag) => {
        for (const { committed } of changes) await committed?.(etag);
      },
    };
  }

  async ids(value: KeyValues): Promise<string[]> {
    await this.#context.readable?.();
    return this.#idsIn(listOf(this.#entries, value));
  }

  async get(value: KeyValues): Promise<Row[]> {
    const { entity } = this.#context;
    const list = listOf(this.#entries, value);
    const members = await mapBounded(await this.ids(value), LOOKUPS_AT_ONCE, async (id) => {
      const rowKey = entity.rows.row.prefix + id;
      const { row } = (await readAt(this.#context, { ...list, rowKey })) ?? {};
      return row && hasKey(this.keysOf(row), list) ? row : undefined;
    });
    return members.filter((row) => row !== undefined);
  }

  async collect(olderThanMs?: number): Promise<number> {
    return this.#blobs?.collect(olderThanMs) ?? 0;
  }

  keysOf(row: Row | undefined): EntityKey[] {
    return row ? this.#entries.keysOf(row) : [];
  }

  /**
   * The lists are read before the entity. A writer that makes it a member again rewrites the lists; a writer
   * that removes it changes the entity, whose ETag the transaction requires.
   */
  async reconcile(base: EntityKey, hints: readonly EntityKey[]): Promise<Reconciled> {
    const { session, entity } = this.#context;
    for (let round = 0; round < ROUNDS_MAX; round++) {
      try {
        const changes = await this.#corrections(base, hints);
        const mutations = changes.flatMap((change) => change.mutations ?? []);
        const inTime = timeLeft(session, latest(changes), base.rowKey);
        const isDone =
          mutations.length === 0 ||
          (await commitIfCurrent(session, entity.table, mutations, inTime));
        if (isDone) {
          for (const { committed } of changes) await committed?.(undefined);
          return "done";
        }
      } catch (error) {
        if (!(error instanceof Stale)) throw error;
      }
      await session.clock.sleep(BACKOFF_MS * session.random());
    }
    return "later";
  }

  /** Empty when all is right. */
  async #corrections(base: EntityKey, hints: readonly EntityKey[]): Promise<Contribution[]> {
    const id = this.#idOf(base);
    const before = await mapBounded(hints, LOOKUPS_AT_ONCE, (list) => this.#read(list, true));
    const found = await readAt(this.#context, base);
    const desired = this.keysOf(found?.row);
    const unread = desired.filter((list) => !hasKey(hints, list));
    if (unread.length > 0) return this.#corrections(base, [...hints, ...unread]);
    const token = this.#context.session.writeToken();
    const changes: Contribution[] = [];
    for (const [i, list] of hints.entries()) {
      const isMember = hasKey(desired, list);
      if (before[i]!.ids.includes(id) === isMember) continue;
      changes.push(await this.#change(list, before[i]!, id, isMember, token));
    }
    if (!found || changes.length === 0) return changes;
    return [{ mutations: [mergeNothing(found.stored, found.stored.etag)] }, ...changes];
  }

  async membersOf(list: EntityKey): Promise<(base: EntityKey) => boolean> {
    const ids = new Set(await this.#idsIn(list, true));
    return (base) => ids.has(this.#idOf(base));
  }

  async *lists(from?: Continuation): AsyncGenerator<Listed> {
    // The ordered layout uses the same character between the parts of a key.
    const count = this.#entries.row.separator === FURTHER ? this.#entries.row.parts.length : 1;
    const parts = ({ rowKey }: EntityKey) => rowKey.split(FURTHER).slice(0, count);
    for await (const { entities, continuation } of this.#allRows(from)) {
      for (const [i, row] of entities.entries()) {
        const { partitionKey } = row;
        const list = { partitionKey, rowKey: parts(row).join(FURTHER) };
        const isBlob = this.#blobIn(row) !== undefined;
        const ids = isBlob ? await this.#idsIn(list, true) : this.#parse(row);
        const members = ids.map((id) => ({ partitionKey, rowKey: this.#prefix + id }));
        const isLast = i === entities.length - 1;
        yield { list, members, ...(isLast && continuation && { continuation }) };
      }
    }
  }

  async drop(keep: () => Promise<void>): Promise<void> {
    const { session, entity } = this.#context;
    for await (const { entities } of this.#allRows()) {
      for (const row of entities) {
        await deleteRows(session, entity.table, [row], keep);
        await this.#blobs?.delete(this.#blobIn(row));
      }
    }
  }

  #allRows(start?: Continuation): AsyncGenerator<Page> {
    const { session, entity } = this.#context;
    const filter = entriesOf(entity.rows.typeProperty, this.#entries.tag);
    return pagesWhere(session, entity.table, { filter }, start);
  }

  get #prefix(): string {
    return this.#context.entity.rows.row.prefix;
  }

  #idOf({ rowKey }: EntityKey): string {
    return rowKey.slice(this.#prefix.length);
  }

  async #change(
    list: EntityKey,
    { rows, blob, ids: before }: ListRead,
    id: string,
    isMember: boolean,
    token: string,
  ): Promise<Contribution> {
    const all = () => withMember(before, id, isMember);
    const blobs = this.#blobs;
    if (blobs && blob !== undefined) return this.#inBlob(blobs, list, rows, all(), token, blob);
    const members = rows.map((row) => this.#parse(row));
    const holder = members.findIndex((ids) => ids.includes(id));
    if (holder < 0 && !isMember) return {};
    const neighbours = members.findLastIndex(([first = ""]) => first < id);
    const at = holder < 0 ? Math.max(0, neighbours) : holder;
    const ids = withMember(members[at] ?? [], id, isMember);
    const row = rows[at];
    if (ids.length === 0) return { mutations: row ? [deleteOf(row, row.etag)] : [] };
    const write = (key: EntityKey, stored: StoredEntity | undefined, part: readonly string[]) => {
      const properties = this.#print(part);
      return properties ? [this.#write(key, stored, properties, this.#encoding, token)] : undefined;
    };
    const whole = write(row ?? list, row, ids);
    if (whole) return { mutations: whole };
    const half = ids.length >> 1;
    const next = this.#further(list, rows);
    const lower = write(row ?? list, row, ids.slice(0, half));
    const upper = write(next, undefined, ids.slice(half));
    if (lower && upper && rows.length < this.#rowsMax) {
      const { profile } = this.#context.session;
      if (!blobs) assertKeyFits(next, profile);
      if (next.rowKey.length <= profile.rowKeyLengthMax) return { mutations: [...lower, ...upper] };
    }
    if (!blobs) throw this.#tooLarge(list, all());
    return this.#inBlob(blobs, list, rows, all(), token);
  }

  /** One row names the blob, the others are deleted. The blob named before is deleted after the commit. */
  async #inBlob(
    blobs: ListBlobs,
    list: EntityKey,
    rows: readonly StoredEntity[],
    ids: readonly string[],
    token: string,
    old?: string,
  ): Promise<Contribution> {
    const { session, name } = this.#context;
    const first = ids.length > 0 ? rows.find(({ rowKey }) => rowKey === list.rowKey) : undefined;
    const others = rows.filter((row) => row !== first);
    const mutations = others.map((row) => deleteOf(row, row.etag));
    const commitByMs = ids.length > 0 ? blobs.commitByMs : undefined;
    if (ids.length > 0) {
      const pointer = { [this.#property]: text(await blobs.write(list, ids)) };
      mutations.push(this.#write(list, first, pointer, IN_BLOB, token));
    }
    const committed = async () => {
      if (old === undefined)
        session.report({ kind: "list in blob", index: name, key: list.rowKey });
      // If this fails, `collect` deletes it later.
      await blobs.delete(old).catch(() => undefined);
    };
    return { mutations, commitByMs, committed };
  }

  #write(
    key: EntityKey,
    stored: StoredEntity | undefined,
    members: Properties,
    encoding: string,
    token: string,
  ): Mutation {
    const marks = this.#entries.marks(tokensAfter(token, tokensOf(stored?.properties)));
    return writeOver(stored, key, { ...members, ...marks, [ENCODING]: text(encoding) });
  }

  /**
   * The rows in the order of their members. @throws Stale when the list moved into a blob, or out of one,
   * between two pages.
   */
  async #rowsOf(list: EntityKey): Promise<StoredEntity[]> {
    const { session, entity } = this.#context;
    if (this.#rowsMax === 1) {
      const row = await session.tables.get(entity.table, list);
      return row ? [row] : [];
    }
    const range = { from: list.rowKey, to: endOf(list.rowKey + FURTHER) };
    const rows: StoredEntity[] = [];
    const found = pagesOf(session, entity.table, { ...list, rows: range });
    let pages = 0;
    for await (const { entities } of found) {
      rows.push(...entities);
      pages++;
    }
    // The halves of a row go to the row itself and to one after all others, so at worst they are read twice. A
    // move into a blob happens at once.
    if (pages > 1) {
      const isList = ({ rowKey }: EntityKey) => rowKey === list.rowKey;
      const now = await session.tables.get(entity.table, list);
      if (this.#blobIn(now) !== this.#blobIn(rows.find(isList))) throw new Stale(list.rowKey);
    }
    const first = (row: StoredEntity) => this.#parse(row)[0] ?? "";
    return rows.sort((a, b) => (first(a) < first(b) ? -1 : 1));
  }

  #further({ partitionKey, rowKey }: EntityKey, rows: readonly StoredEntity[]): EntityKey {
    const numbers = rows.map((row) => Number(row.rowKey.slice(rowKey.length + FURTHER.length)));
    const number = padded(Math.max(0, ...numbers) + 1, 4);
    return { partitionKey, rowKey: rowKey + FURTHER + number };
  }

  /** Retries, because the blob may be replaced after the row that names it was read. */
  async #idsIn(list: EntityKey, isMending = false): Promise<string[]> {
    const read = () => this.#read(list, isMending);
    return (await retryWhileStale(this.#context.session, {}, read)).ids;
  }

  /**
   * @throws Stale when its blob is gone; validation-failed for a list in a blob where none is declared. While
   * the index is repaired, a list that still names a missing blob counts as empty.
   */
  async #read(list: EntityKey, isMending = false): Promise<ListRead> {
    const rows = await this.#rowsOf(list);
    const blob = this.#blobIn(rows[0]);
    if (blob === undefined) {
      const ids = new Set(rows.flatMap((row) => this.#parse(row)));
      return { rows, blob, ids: [...ids].sort() };
    }
    if (!this.#blobs) {
      throw validationFailed(`The list ${list.rowKey}`, "spill", "it is in a blob");
    }
    const ids = await this.#blobs.read(blob);
    if (ids) return { rows, blob, ids };
    const isGone = isMending && this.#blobIn((await this.#rowsOf(list))[0]) === blob;
    if (!isGone) throw new Stale(blob);
    return { rows, blob, ids: [] };
  }

  #blobIn(row: StoredEntity | undefined): string | undefined {
    const isBlob = row?.properties[ENCODING]?.value === IN_BLOB;
    return isBlob ? String(row.properties[this.#property]?.value) : undefined;
  }

  #tooLarge({ rowKey }: EntityKey, ids: readonly string[]): Error {
    const suggestion = "use a sibling index, which has a row per member";
    const limit = this.#propertyLengthMax * 2 * this.#propertiesMax * this.#rowsMax;
    const bytes = LIST_ENCODINGS[this.#encoding].lengthOf(ids) * 2;
    const message = `The list ${rowKey} would have ${ids.length} members in ${bytes} bytes; at most ${limit} fit.`;
    const payload = { bytes, limit, suggestion };
    return tableError("entity-too-large", message, payload, { remedy: `${suggestion}.` });
  }

  /** Undefined when they do not fit in a row. All ids have the same width. */
  #print(ids: readonly string[]): Properties | undefined {
    const encoding = LIST_ENCODINGS[this.#encoding];
    const perProperty = idsThatFit(encoding, ids[0] ?? "", this.#propertyLengthMax);
    const count = Math.ceil(ids.length / perProperty);
    if (count > this.#propertiesMax) return undefined;
    if (count === 1) return { [this.#property]: encoding.encode(ids) };
    const parts = Array.from({ length: count }, (_, i) =>
      encoding.encode(ids.slice(i * perProperty, (i + 1) * perProperty)),
    );
    return Object.fromEntries(parts.map((part, i) => [`${this.#property}_${padded(i, 2)}`, part]));
  }

  #parse({ properties }: StoredEntity): string[] {
    const property = this.#property;
    const names = Object.keys(properties).filter(
      (name) => name === property || (name.startsWith(`${property}_`) && /_\d\d$/.test(name)),
    );
    const { decode } = encodingNamed(properties[ENCODING]?.value);
    return names.flatMap((name) => decode(properties[name]!, this.#digits)).sort();
  }
}
