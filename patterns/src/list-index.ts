import { tableError } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import { KeyShape, type KeyValues } from "./keys/key-shape.ts";
import type { AnyEntity } from "./model/entity.ts";
import { Index, type IndexKind, type OpenIndex } from "./model/entity-index.ts";
import type { Row } from "./model/entity-rows.ts";
import { type Each, EntryRows, entryProblems, type Place } from "./model/entry.ts";
import type { Change, Contribution, FollowerContext } from "./model/follower.ts";
import type { KeyEquality } from "./model/key-query.ts";
import { type Properties, text } from "./ports/edm.ts";
import { writeOver } from "./ports/mutation.ts";
import type { EntityKey, Mutation, StoredEntity } from "./ports/tables.ts";
import type { Saved } from "./query/query.ts";
import { LOOKUPS_AT_ONCE, mapBounded } from "./store/limit.ts";
import { tokensAfter, tokensOf } from "./store/write-token.ts";
import { readAt } from "./write.ts";

export interface ListOptions<R extends KeyDeclaration> {
  /** The list's row key: a literal of its own, then the value its members share. */
  readonly row: R;
  /** The property that holds the members, as in `EmployeeIDs`. */
  readonly property: string;
  /** Pure. Entities that do not match are in no list. */
  readonly when?: (entity: Row) => boolean;
  readonly each?: Each;
  /** What happens when a list outgrows one property: it is refused, or goes on in up to 15. */
  readonly spill?: "none" | "properties";
  /** Characters in one property; 32,768 at most and otherwise. */
  readonly propertyLengthMax?: number;
}

interface ListKind<R extends KeyDeclaration> extends IndexKind {
  readonly api: ListApi<this["entity"], KeyEquality<this["partition"]> & KeyEquality<R>>;
}

interface ListApi<T, Value> {
  /** What the row keys of the members hold after their literals, sorted. 1 R, 1 E. */
  ids(value: Value): Promise<string[]>;
  /** The members. Those that other software listed wrongly are left out. 1 + m R and E. */
  get(value: Value): Promise<Saved<T>[]>;
}

const PROPERTY_LENGTH_MAX = 32_768;
const PROPERTIES_MAX = 15;
/** How a list is encoded; there is one way so far. */
const ENCODING = "rh_x";

/**
 * One row for each value, with the ids of the entities that have it, in their own partition and written
 * in the same transaction. For small sets that are read far more than they change; a sibling index has
 * no limits.
 */
export function listIndex<const R extends KeyDeclaration>(options: ListOptions<R>): ListIndex<R> {
  return new ListIndex(options);
}

export class ListIndex<R extends KeyDeclaration> extends Index<ListKind<R>> {
  readonly row: KeyShape;
  readonly options: ListOptions<R>;

  constructor(options: ListOptions<R>) {
    super();
    this.row = new KeyShape(options.row);
    this.options = options;
  }

  override place({ table, rows }: AnyEntity): Place {
    return { table, partition: rows.partition, row: this.row };
  }

  problems(entity: AnyEntity, name: string): string[] {
    const problems = entryProblems(entity, name, this.place(entity), "keys", [], this.options.each);
    if (entity.rows.row.segments.some(({ form }) => form !== "fixed")) {
      problems.push(
        "lists entities whose row keys may hold a comma: give them segments of fixed width",
      );
    }
    if (!/^[A-Za-z_]\w*$/.test(this.options.property)) {
      problems.push(`has the illegal property name "${this.options.property}"`);
    }
    return problems;
  }

  follow(context: FollowerContext): OpenIndex {
    const open = new OpenList(this, context);
    return { api: open, prepare: (change) => open.prepare(change) };
  }
}

class OpenList {
  readonly #row: KeyShape;
  readonly #options: ListOptions<KeyDeclaration>;
  readonly #context: FollowerContext;
  readonly #entries: EntryRows;

  constructor(index: ListIndex<KeyDeclaration>, context: FollowerContext) {
    this.#row = index.row;
    this.#options = index.options;
    this.#context = context;
    const { when, each } = index.options;
    this.#entries = new EntryRows(context, index.place(context.entity), {
      copy: "keys",
      ...(when && { when }),
      ...(each && { each }),
    });
  }

  async prepare({ key, before, after, token }: Change): Promise<Contribution> {
    const oldKeys = this.#listKeys(before?.row);
    const newKeys = this.#listKeys(after);
    // A row of other software has no token, and nobody listed it.
    const isListed = before && tokensOf(before.stored.properties) !== undefined;
    const id = this.#idOf(key);
    const without = (ids: string[]) => ids.filter((other) => other !== id);
    const within = (ids: string[]) => [...new Set([...ids, id])].sort();
    const left = oldKeys.filter((list) => !newKeys.includes(list));
    const joined = newKeys.filter((list) => !isListed || !oldKeys.includes(list));
    const changes = await Promise.all([
      ...left.map((list) => this.#change(key.partitionKey, list, token, without)),
      ...joined.map((list) => this.#change(key.partitionKey, list, token, within)),
    ]);
    const mutations = changes.filter((mutation) => mutation !== undefined);
    return { mutations, explain: async () => "retry" };
  }

  async ids(value: KeyValues): Promise<string[]> {
    const { database, entity } = this.#context;
    const partitionKey = entity.rows.partitionKey(value);
    const rowKey = this.#row.pointOf(value) ?? "";
    return this.#parse(await database.tables.get(entity.table, { partitionKey, rowKey }));
  }

  async get(value: KeyValues): Promise<Row[]> {
    const { entity } = this.#context;
    const partitionKey = entity.rows.partitionKey(value);
    const listKey = this.#row.pointOf(value);
    const members = await mapBounded(await this.ids(value), LOOKUPS_AT_ONCE, async (id) => {
      const rowKey = entity.rows.row.prefix + id;
      const { row } = (await readAt(this.#context, { partitionKey, rowKey })) ?? {};
      return row && listKey !== undefined && this.#listKeys(row).includes(listKey)
        ? row
        : undefined;
    });
    return members.filter((row) => row !== undefined);
  }

  async #change(
    partitionKey: string,
    rowKey: string,
    token: string,
    change: (ids: string[]) => string[],
  ): Promise<Mutation | undefined> {
    const { database, entity } = this.#context;
    const key: EntityKey = { partitionKey, rowKey };
    const stored = await database.tables.get(entity.table, key);
    const ids = change(this.#parse(stored));
    if (!stored && ids.length === 0) return undefined;
    if (stored && ids.length === 0) return { kind: "delete", ...key, ifMatch: stored.etag };
    const properties = {
      ...this.#print(rowKey, ids),
      ...this.#entries.marks(tokensAfter(token, tokensOf(stored?.properties))),
      [ENCODING]: text("csv"),
    };
    return writeOver(stored, key, properties);
  }

  #print(rowKey: string, ids: readonly string[]): Properties {
    const { property, spill = "none", propertyLengthMax = PROPERTY_LENGTH_MAX } = this.#options;
    const width = (ids[0]?.length ?? 0) + 1;
    const perProperty = Math.floor((propertyLengthMax + 1) / width);
    const count = Math.ceil(ids.length / perProperty);
    const limit = spill === "none" ? 1 : PROPERTIES_MAX;
    if (count > limit) {
      const suggestion = "use a sibling index, which takes a row for each member";
      const bytes = ids.length * width * 2;
      const message = `The list ${rowKey} would have ${ids.length} members; ${perProperty * limit} fit.`;
      const payload = { bytes, limit: propertyLengthMax * 2 * limit, suggestion };
      throw tableError("entity-too-large", message, payload, { remedy: `${suggestion}.` });
    }
    if (count === 1) return { [property]: text(ids.join()) };
    const parts = Array.from({ length: count }, (_, i) =>
      ids.slice(i * perProperty, (i + 1) * perProperty).join(),
    );
    return Object.fromEntries(
      parts.map((part, i) => [`${property}_${String(i).padStart(2, "0")}`, text(part)]),
    );
  }

  #parse(stored: StoredEntity | undefined): string[] {
    const { property } = this.#options;
    if (!stored) return [];
    const names = Object.keys(stored.properties).filter(
      (name) => name === property || (name.startsWith(`${property}_`) && /_\d\d$/.test(name)),
    );
    const ids = names.flatMap((name) => String(stored.properties[name]!.value).split(","));
    return ids.filter((id) => id !== "").sort();
  }

  #idOf({ rowKey }: EntityKey): string {
    return rowKey.slice(this.#context.entity.rows.row.prefix.length);
  }

  #listKeys(row: Row | undefined): string[] {
    return row ? this.#entries.keysOf(row).map(({ rowKey }) => rowKey) : [];
  }
}
