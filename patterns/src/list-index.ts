import { deleteRows } from "./bulk-delete.ts";
import { readAt } from "./entities/write.ts";
import { assertSome, definitionRefused, tableError, validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import { padded } from "./keys/number.ts";
import { endOf } from "./keys/text.ts";
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
import type { FieldNames, KeyEquality } from "./model/key-query.ts";
import { STRING_LENGTH_MAX, text } from "./ports/edm.ts";
import { deleteOf, mergeNothing, writeOver } from "./ports/mutation.ts";
import type { Continuation, EntityKey, Mutation, Page, StoredEntity } from "./ports/tables.ts";
import { pagesOf, pagesWhere } from "./query/pages.ts";
import type { Saved } from "./query/query.ts";
import { commitIfCurrent } from "./store/commit-if-current.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "./store/limit.ts";
import { tokensAfter, tokensOf } from "./store/write-token.ts";

export interface ListOptions<R extends KeyDeclaration, E extends string = string> {
  /** The list's row key: a literal of its own, then the value its members share. */
  readonly row: R;
  /** The property that holds the members, such as `EmployeeIDs`. */
  readonly property: string;
  /** Pure. Entities for which it returns false are in no list. */
  readonly when?: (entity: Row) => boolean;
  readonly each?: Each<E>;
  /**
   * Whether a list that outgrows its row continues in further rows or, the default, refuses its next member: a
   * list as large as that should be a sibling index.
   */
  readonly spill?: "none" | "entities";
  /** Characters in one property, two bytes each. At most 32,768, the default. */
  readonly propertyLengthMax?: number;
  /** Rows of one list. At most 16, the default. */
  readonly rowsMax?: number;
}

interface ListKind<R extends KeyDeclaration, Names extends string> extends IndexKind {
  readonly fields: Names;
  readonly api: ListApi<this["entity"], KeyEquality<this["partition"]> & KeyEquality<R>>;
}

interface ListApi<T, Value> {
  /** The row keys of the members without their leading literals, sorted. 1 R, and E for the rows of the list. */
  ids(value: Value): Promise<string[]>;
  /** The members, without those that other software listed wrongly. m R and E besides those of `ids`. */
  get(value: Value): Promise<Saved<T>[]>;
}

/** How a list is encoded. */
const ENCODING = "rh_x";
const CSV = "csv";
/** A write of a list reads all its rows. */
const ROWS_MAX = 16;

/**
 * One row for each value, with the ids of the entities that have it, in their own partition and written in the
 * same transaction. For small sets that are read far more often than they change; a sibling index has no
 * limits.
 */
export function listIndex<const R extends KeyDeclaration, const E extends string = never>(
  options: ListOptions<R, E>,
): ListIndex<R, FieldNames<R, E>> {
  return new ListIndex(options);
}

export class ListIndex<R extends KeyDeclaration, Names extends string = string> extends Index<
  ListKind<R, Names>
> {
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

/**
 * A list is the union of its rows. A writer that adds a member writes the row of its neighbours, and splits the
 * row in two when it is full. The entity's own ETag decides who may list it; the ETags of the rows keep them
 * from being overwritten.
 */
class OpenList implements ListKeeper {
  readonly #context: FollowerContext;
  readonly #entries: EntryKeys;
  readonly #property: string;
  readonly #lengthMax: number;
  readonly #rowsMax: number;

  constructor(index: ListIndex<KeyDeclaration>, context: FollowerContext) {
    const { property, spill, propertyLengthMax, rowsMax = ROWS_MAX } = index.options;
    this.#context = context;
    this.#entries = new EntryKeys(context, index);
    this.#property = property;
    this.#lengthMax = propertyLengthMax ?? STRING_LENGTH_MAX;
    this.#rowsMax = spill === "entities" ? rowsMax : 1;
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
      ...left.map(async (list) => this.#change(list, await this.#rowsOf(list), id, false, token)),
      ...joined.map(async (list) => this.#change(list, await this.#rowsOf(list), id, true, token)),
    ]);
    return { mutations: changes.flat(), explain: async () => "retry" };
  }

  async ids(value: KeyValues): Promise<string[]> {
    await this.#context.readable?.();
    return this.#idsIn(await this.#rowsOf(listOf(this.#entries, value)));
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
      const mutations = await this.#corrections(base, hints);
      const isDone =
        mutations.length === 0 || (await commitIfCurrent(session, entity.table, mutations));
      if (isDone) return "done";
      await session.clock.sleep(BACKOFF_MS * session.random());
    }
    return "later";
  }

  /** Empty when all is right. */
  async #corrections(base: EntityKey, hints: readonly EntityKey[]): Promise<Mutation[]> {
    const id = this.#idOf(base);
    const before = await mapBounded(hints, LOOKUPS_AT_ONCE, (list) => this.#rowsOf(list));
    const found = await readAt(this.#context, base);
    const desired = this.keysOf(found?.row);
    const unread = desired.filter((list) => !hasKey(hints, list));
    if (unread.length > 0) return this.#corrections(base, [...hints, ...unread]);
    const token = this.#context.session.writeToken();
    const changes = hints.flatMap((list, i) => {
      const isMember = hasKey(desired, list);
      if (this.#idsIn(before[i]!).includes(id) === isMember) return [];
      return this.#change(list, before[i]!, id, isMember, token);
    });
    if (!found || changes.length === 0) return changes;
    return [mergeNothing(found.stored, found.stored.etag), ...changes];
  }

  async membersOf(list: EntityKey): Promise<(base: EntityKey) => boolean> {
    const ids = new Set(this.#idsIn(await this.#rowsOf(list)));
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
        const ids = this.#idsOf(row);
        const members = ids.map((id) => ({ partitionKey, rowKey: this.#prefix + id }));
        const isLast = i === entities.length - 1;
        yield { list, members, ...(isLast && continuation && { continuation }) };
      }
    }
  }

  async drop(keep: () => Promise<void>): Promise<void> {
    const { session, entity } = this.#context;
    for await (const { entities } of this.#allRows()) {
      await deleteRows(session, entity.table, entities, keep);
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

  /** @throws entity-too-large or key-too-long for a member that no row has room for. */
  #change(
    list: EntityKey,
    rows: readonly StoredEntity[],
    id: string,
    isMember: boolean,
    token: string,
  ): Mutation[] {
    const members = rows.map((row) => this.#idsOf(row));
    const holder = members.findIndex((ids) => ids.includes(id));
    if (holder < 0 && !isMember) return [];
    const neighbours = members.findLastIndex(([first = ""]) => first < id);
    const at = holder < 0 ? Math.max(0, neighbours) : holder;
    const ids = withMember(members[at] ?? [], id, isMember);
    const row = rows[at];
    if (ids.length === 0) return row ? [deleteOf(row, row.etag)] : [];
    const write = (key: EntityKey, stored: StoredEntity | undefined, part: readonly string[]) => {
      const marks = this.#entries.marks(tokensAfter(token, tokensOf(stored?.properties)));
      const properties = { [this.#property]: text(part.join()), [ENCODING]: text(CSV) };
      return writeOver(stored, key, { ...properties, ...marks });
    };
    if (ids.join().length <= this.#lengthMax) return [write(row ?? list, row, ids)];
    if (rows.length >= this.#rowsMax || ids.length < 2) {
      throw this.#tooLarge(list, withMember(this.#idsIn(rows), id, true));
    }
    const half = ids.length >> 1;
    const next = this.#further(list, rows);
    assertKeyFits(next, this.#context.session.profile);
    return [write(row ?? list, row, ids.slice(0, half)), write(next, undefined, ids.slice(half))];
  }

  /** The rows in the order of their members. */
  async #rowsOf(list: EntityKey): Promise<StoredEntity[]> {
    const { session, entity } = this.#context;
    if (this.#rowsMax === 1) {
      const row = await session.tables.get(entity.table, list);
      return row ? [row] : [];
    }
    const range = { from: list.rowKey, to: endOf(list.rowKey + FURTHER) };
    const rows: StoredEntity[] = [];
    const found = pagesOf(session, entity.table, { ...list, rows: range });
    // A row that is split between two pages is read twice in part: one half is added after all others.
    for await (const { entities } of found) rows.push(...entities);
    const first = (row: StoredEntity) => this.#idsOf(row)[0] ?? "";
    return rows.sort((a, b) => (first(a) < first(b) ? -1 : 1));
  }

  #further({ partitionKey, rowKey }: EntityKey, rows: readonly StoredEntity[]): EntityKey {
    const numbers = rows.map((row) => Number(row.rowKey.slice(rowKey.length + FURTHER.length)));
    const number = padded(Math.max(0, ...numbers) + 1, 4);
    return { partitionKey, rowKey: rowKey + FURTHER + number };
  }

  #idsIn(rows: readonly StoredEntity[]): string[] {
    return [...new Set(rows.flatMap((row) => this.#idsOf(row)))].sort();
  }

  /** @throws validation-failed for a form of list that only former versions knew. */
  #idsOf({ rowKey, properties }: StoredEntity): string[] {
    const { [this.#property]: ids, [ENCODING]: encoding } = properties;
    if ((encoding && encoding.value !== CSV) || `${this.#property}_00` in properties) {
      const message = "it is in a form that is no longer read: retire the index and build it again";
      throw validationFailed(`The list ${rowKey}`, this.#property, message);
    }
    return String(ids?.value ?? "")
      .split(",")
      .filter(Boolean)
      .sort();
  }

  #tooLarge({ rowKey }: EntityKey, ids: readonly string[]): Error {
    const remedy = "use a sibling index, which has a row per member";
    const limit = this.#lengthMax * 2 * this.#rowsMax;
    const bytes = ids.join().length * 2;
    const message = `The list ${rowKey} would have ${ids.length} members in ${bytes} bytes; at most ${limit} fit.`;
    const payload = { bytes, limit, remedy };
    return tableError("entity-too-large", message, payload, { remedy: `${remedy}.` });
  }
}
