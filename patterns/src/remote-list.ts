import { deleteRows } from "./bulk-delete.ts";
import { assertSome, definitionRefused } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import { within } from "./keys/key-range.ts";
import {
  type ListSlot,
  type ListStore,
  membersIn,
  QueuedList,
  type QueuedListApi,
  type QueuedListOptions,
  withMember,
} from "./lists/queued-list.ts";
import { REPAIR_QUEUE } from "./messages/repair-order.ts";
import { type EntryKeys, entriesOf, entryProblems } from "./model/entry.ts";
import type { AnyEntity, FollowerContext } from "./model/follower.ts";
import { Index, type IndexKind, type OpenIndex } from "./model/follower.ts";
import type { FieldNames, KeyEquality } from "./model/key-query.ts";
import { nameProblems } from "./model/storage-name.ts";
import { type Properties, STRING_LENGTH_MAX, text } from "./ports/edm.ts";
import type { Filter } from "./ports/filter.ts";
import { deleteOf, keyOf, writeOver } from "./ports/mutation.ts";
import type { Continuation, EntityKey, Mutation, StoredEntity } from "./ports/tables.ts";
import { pagesOf, pagesWhere } from "./query/pages.ts";
import { commitIfCurrent } from "./store/commit-if-current.ts";
import type { Session } from "./store/session.ts";
import { tokenBehind, tokensAfter, tokensOf } from "./store/write-token.ts";

export interface RemoteListOptions<
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  E extends string = string,
> extends QueuedListOptions<E> {
  /** Default: the entity's own table; its keys must then begin with another literal. */
  readonly table?: string;
  readonly partition: P;
  readonly row: R;
  /** The property that holds the members, such as `EmployeeDetails`. */
  readonly property: string;
  /** Characters in a row before the list continues in another. At most 32,768, the default. */
  readonly lengthMax?: number;
}

interface RemoteListKind<P extends KeyDeclaration, R extends KeyDeclaration, Names extends string>
  extends IndexKind {
  readonly fields: Names;
  readonly api: QueuedListApi<this["entity"], KeyEquality<P> & KeyEquality<R>>;
}

/**
 * One list for each value, with the keys of the entities that have it, whatever their partition or table;
 * maintained by a worker. A list that outgrows a row continues in further rows.
 */
export function remoteList<
  const P extends KeyDeclaration,
  const R extends KeyDeclaration,
  const E extends string = never,
>(options: RemoteListOptions<P, R, E>): RemoteList<P, R, FieldNames<P, E> | FieldNames<R, E>> {
  return new RemoteList(options);
}

export class RemoteList<
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  Names extends string = string,
> extends Index<RemoteListKind<P, R, Names>> {
  declare readonly options: RemoteListOptions<P, R>;
  override readonly queues: readonly string[];

  constructor(options: RemoteListOptions<P, R>) {
    super(options, options);
    const { lengthMax = STRING_LENGTH_MAX } = options;
    assertSome("The list", { lengthMax }, definitionRefused, STRING_LENGTH_MAX);
    this.queues = [options.queue ?? REPAIR_QUEUE];
  }

  problems(entity: AnyEntity, name: string): string[] {
    const { property, queue } = this.options;
    const problems = [...entryProblems(this, entity, name), ...nameProblems({ queue })];
    if (!/^[A-Za-z_]\w*$/.test(property)) {
      problems.push(`has the illegal property name "${property}"`);
    }
    return problems;
  }

  follow(context: FollowerContext): OpenIndex {
    const rows = (entries: EntryKeys) => new ListRows(context, entries, this.options);
    return new QueuedList(context, this, rows).follower();
  }
}

/** The encoding of a list's row and the bounds of its members, one per line. */
const RANGE = "rh_x";
/** No codec emits this. The keys of a list's further rows are the list's own key, this and a token. */
const FURTHER = '"p';
const TOKEN_LENGTH = 26;

/** A row of a list. It holds the members from `from` up to, but not including, `to`; an empty `to` means no end. */
interface Part {
  readonly key: EntityKey;
  readonly stored: StoredEntity | undefined;
  readonly from: string;
  readonly to: string;
}

type ListRowsOptions = Pick<
  RemoteListOptions<KeyDeclaration, KeyDeclaration>,
  "property" | "lengthMax"
>;

/**
 * A list is a row that may be followed by others, each with its own range of members: a full row is split in
 * two, and the range of an empty one goes to the row before it. Every row that changes is written under the
 * ETag that was read, so a writer that saw old ranges loses the race. A new row sorts after the one it was
 * split from, whatever the clock: a reader that reads them in order may see a member twice, but never misses
 * one.
 */
class ListRows implements ListStore {
  readonly suffixLength = FURTHER.length + TOKEN_LENGTH;
  readonly #session: Session;
  readonly #entries: EntryKeys;
  readonly #property: string;
  readonly #lengthMax: number;
  /** Selects the rows of lists among other rows. */
  readonly #filter: Filter;

  constructor(
    { session, entity }: FollowerContext,
    entries: EntryKeys,
    { property, lengthMax = STRING_LENGTH_MAX }: ListRowsOptions,
  ) {
    this.#session = session;
    this.#entries = entries;
    this.#property = property;
    this.#lengthMax = lengthMax;
    this.#filter = entriesOf(entity.rows.typeProperty, entries.tag);
  }

  async members(list: EntityKey): Promise<string[]> {
    const first = await this.#get(list);
    const parts = first.to === "" ? [first] : [first, ...(await this.#further(list))];
    return [...new Set(parts.flatMap(({ stored }) => this.#membersOf(stored)))].sort();
  }

  async open(list: EntityKey, member: string): Promise<ListSlot> {
    const first = await this.#get(list);
    const isFirst = first.to === "" || member < first.to;
    const ranges = isFirst ? [] : await this.#further(list, [RANGE]);
    const holder = ranges.find((part) => holds(part, member));
    const part = isFirst ? first : holder && (await this.#get(holder.key));
    // The ranges may have changed between the two reads.
    if (!part || !holds(part, member) || (!isFirst && !part.stored)) {
      return { isMember: true, set: async () => false };
    }
    const members = this.#membersOf(part.stored);
    return {
      isMember: members.includes(member),
      set: (isMember) => {
        const next = withMember(members, member, isMember);
        if (next.length === 0) return this.#empty(part, [first, ...ranges]);
        return this.#commit(this.#filled(part, next));
      },
    };
  }

  /** The row with these members, and a second one with the upper half of the text if it is too long for one. */
  #filled(part: Part, members: readonly string[]): Mutation[] {
    const content = members.join("\n");
    if (content.length <= this.#lengthMax || members.length < 2) {
      return [this.#write(part, content, part.to)];
    }
    const half = content.lastIndexOf("\n", content.length >> 1);
    const end = half < 0 ? content.indexOf("\n") : half;
    const rest = content.slice(end + 1);
    const [middle = ""] = rest.split("\n", 1);
    const { partitionKey, rowKey } = part.key;
    const [stem, own = ""] = rowKey.split(FURTHER);
    const next = tokenBehind(own, this.#session.writeToken());
    const key = { partitionKey, rowKey: stem + FURTHER + next };
    const upper = { key, stored: undefined, from: middle, to: part.to };
    return [this.#write(part, content.slice(0, end), middle), this.#write(upper, rest, part.to)];
  }

  async #empty(part: Part, others: readonly Part[]): Promise<boolean> {
    const { key, stored, from, to } = part;
    if (!stored) return true;
    const isOnly = from === "" && to === "";
    if (from === "" && !isOnly) return this.#commit([this.#write(part, "", to)]);
    const gone = deleteOf(key, stored.etag);
    const before = others.find((other) => other.to === from && other.stored);
    if (isOnly) return this.#commit([gone]);
    if (!before?.stored) return false;
    // The first row was read whole, the others without their members.
    if (before.from === "" && to === "" && this.#membersOf(before.stored).length === 0) {
      return this.#commit([gone, deleteOf(before.key, before.stored.etag)]);
    }
    const properties = { ...this.#marks(before), [RANGE]: rangeOf(before.from, to) };
    const ifMatch = before.stored.etag;
    return this.#commit([gone, { kind: "merge", ...before.key, ifMatch, properties }]);
  }

  #write(part: Part, content: string, to: string): Mutation {
    const { key, stored, from } = part;
    const properties: Properties = {
      ...this.#marks(part),
      [this.#property]: text(content),
      [RANGE]: rangeOf(from, to),
    };
    return writeOver(stored, key, properties);
  }

  #marks({ stored }: Part): Properties {
    return this.#entries.marks(
      tokensAfter(this.#session.writeToken(), tokensOf(stored?.properties)),
    );
  }

  async #get(list: EntityKey): Promise<Part> {
    const key = keyOf(list);
    return partOf(key, await this.#session.tables.get(this.#entries.table, key));
  }

  /** The rows that follow the first, in key order. */
  async #further({ partitionKey, rowKey }: EntityKey, select?: readonly string[]): Promise<Part[]> {
    const range = { partitionKey, rows: within(rowKey + FURTHER) };
    const parts: Part[] = [];
    for await (const { entities } of pagesOf(this.#session, this.#entries.table, range, select)) {
      for (const stored of entities) parts.push(partOf(stored, stored));
    }
    return parts;
  }

  async *all(start?: Continuation) {
    const all = pagesWhere(this.#session, this.#entries.table, { filter: this.#filter }, start);
    for await (const { entities, continuation } of all) {
      for (const [i, stored] of entities.entries()) {
        const { partitionKey, rowKey } = stored;
        const list = { partitionKey, rowKey: rowKey.split(FURTHER)[0] ?? "" };
        const isLast = i === entities.length - 1;
        const next = isLast && continuation && { continuation };
        yield { list, members: this.#membersOf(stored), ...next };
      }
    }
  }

  async drop(keep: () => Promise<void>): Promise<void> {
    const all = pagesWhere(this.#session, this.#entries.table, { filter: this.#filter });
    for await (const { entities } of all) {
      await deleteRows(this.#session, this.#entries.table, entities, keep);
    }
  }

  #membersOf(stored: StoredEntity | undefined): string[] {
    return membersIn(String(stored?.properties[this.#property]?.value ?? ""));
  }

  async #commit(mutations: readonly Mutation[]): Promise<boolean> {
    return (await commitIfCurrent(this.#session, this.#entries.table, mutations)) !== undefined;
  }
}

function holds({ from, to }: Part, member: string): boolean {
  return member >= from && (to === "" || member < to);
}

function rangeOf(from: string, to: string) {
  return text(`lines\n${from}\n${to}`);
}

function partOf(key: EntityKey, stored: StoredEntity | undefined): Part {
  const [, from = "", to = ""] = String(stored?.properties[RANGE]?.value ?? "").split("\n");
  return { key: keyOf(key), stored, from, to };
}
