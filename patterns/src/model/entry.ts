import { tableError } from "../errors.ts";
import type { Segment } from "../keys/key.ts";
import { type KeyShape, keyProblems, namedTwice } from "../keys/key-shape.ts";
import { beginAlike } from "../keys/text.ts";
import { type EdmValue, text } from "../ports/edm.ts";
import { and, compare, type Filter } from "../ports/filter.ts";
import { printKey } from "../ports/mutation.ts";
import type { Profile } from "../ports/profile.ts";
import type { EntityKey, StoredEntity } from "../ports/tables.ts";
import type { Computed } from "../store/session.ts";
import { WRITE_TOKENS } from "../store/write-token.ts";
import { assertKeyFits, type EntityRows, project, type Row, type Unknown } from "./entity-rows.ts";
import {
  type Copy,
  type Each,
  type EntryOptions,
  type Place,
  segmentsOf,
} from "./entry-options.ts";
import type { AnyEntity, FollowerContext, Index } from "./follower.ts";

/** The keys of the base, on every entry. An entry in the base's partition holds the row key only. */
export const BASE_PARTITION_KEY = "basePK";
export const BASE_ROW_KEY = "baseRK";

/** Why `index` cannot store entries of `entity` at its place; one sentence each. */
export function entryProblems(
  index: Index,
  entity: AnyEntity,
  name: string,
  /** The segments of the base's key that an entry key must include, unless the index is unique. */
  naming: readonly Segment[] = [],
): string[] {
  const { rows, table, indexes } = entity;
  const { copy = "full", each = {} } = index.options;
  const place = index.place(entity);
  const problems = keyProblems(place.partition, place.row);
  problems.push(...namedTwice(place.partition), ...namedTwice(place.row));
  const named = new Set(segmentsOf(place).map(({ field }) => field));
  const copied = typeof copy === "string" ? [] : copy;
  for (const field of [...[...named].filter((field) => !(field in each)), ...copied]) {
    if (!(field in rows.fields)) problems.push(`needs the field "${field}", which is not declared`);
  }
  for (const field of Object.keys(each)) {
    if (field in rows.fields) problems.push(`computes "${field}", which is already a field`);
    if (!named.has(field)) problems.push(`computes "${field}", which its key does not use`);
  }
  const unnamed = naming.filter(({ field }) => !named.has(field));
  if (unnamed.length > 0) {
    const list = unnamed.map(({ field }) => `"${field}"`).join(", ");
    problems.push(`is not unique and must name the entity: add ${list} to its key`);
  }
  const collide = (other: string, that: Place) => {
    if (!mayCollide(place, that)) return;
    problems.push(`and ${other} have keys that may collide: begin each with its own literal`);
  };
  collide("the entity", { table, partition: rows.partition, row: rows.row });
  for (const [other, that] of Object.entries(indexes)) {
    if (other !== name) collide(other, that.place(entity));
  }
  return problems;
}

/**
 * Without a leading literal, or when one literal begins with the other, some values may make the keys equal. A number
 * in front is as good as a literal beside keys that begin with a letter.
 */
function mayCollide(a: Place, b: Place): boolean {
  return (
    a.table.toLowerCase() === b.table.toLowerCase() &&
    beginAlike(a.partition.prefix, b.partition.prefix) &&
    a.row.mayBeginWith(b.row.prefix) &&
    b.row.mayBeginWith(a.row.prefix)
  );
}

export function isSameKey(a: EntityKey | undefined, b: EntityKey | undefined): boolean {
  return a?.partitionKey === b?.partitionKey && a?.rowKey === b?.rowKey;
}

export function hasKey(keys: readonly EntityKey[], key: EntityKey): boolean {
  return keys.some((one) => isSameKey(one, key));
}

/** Selects rows whose type property begins with `tag`. `;` is the character after the `:` that ends the tag. */
export function entriesOf(typeProperty: string, tag: string): Filter {
  const from = compare(typeProperty, "ge", text(tag));
  return and(from, compare(typeProperty, "lt", text(`${tag.slice(0, -1)};`)))!;
}

/** How long ago the row was written, by the service's clock alone. A row of unknown age counts as young. */
export function ageOf({ timestamp, servedAtMs }: StoredEntity): number {
  return (servedAtMs ?? 0) - Date.parse(timestamp ?? "");
}

/** The error when `owner` holds the value that another entity needs the entry at `rowKey` for. */
export function valueTaken(
  { entity, name }: FollowerContext,
  rowKey: string,
  owner: EntityKey,
  cause?: unknown,
): Error {
  const { partition, row } = entity.rows;
  const values = row.decode(owner.rowKey);
  return tableError(
    "unique-violation",
    `${entity.name}.${name} "${rowKey}" belongs to ${printKey(owner)}.`,
    {
      index: name,
      key: rowKey,
      owner: values ? { ...partition.decode(owner.partitionKey), ...values } : owner.rowKey,
    },
    { cause },
  );
}

/** The keys of one index's entries, whatever their table and partition. */
export class EntryKeys implements Place {
  /** The prefix of `rh_t` on its entries. */
  readonly tag: string;
  readonly table: string;
  readonly partition: KeyShape;
  readonly row: KeyShape;
  /** How the entities themselves are stored. */
  readonly base: EntityRows;
  readonly #options: EntryOptions;
  readonly #computed: Computed;
  readonly #profile: Profile;

  constructor({ session, entity, name }: FollowerContext, index: Index) {
    const { table, partition, row } = index.place(entity);
    this.tag = `${entity.rows.name}.${name}:`;
    this.table = table;
    this.partition = partition;
    this.row = row;
    this.base = entity.rows;
    this.#options = index.options;
    this.#computed = session.computed;
    this.#profile = session.profile;
  }

  /**
   * The keys of an entity's entries, each once. None for an entity that does not match `when` or lacks a value
   * of the key. @throws key-too-long.
   */
  keysOf(row: Row): EntityKey[] {
    const { when, each = {} } = this.#options;
    const computed = this.#computed;
    let all = !when || computed(`${this.tag} when`, when, row) ? [row] : [];
    for (const [name, valuesOf] of Object.entries(each)) {
      const values = computed(`${this.tag} each ${name}`, valuesOf, row) ?? [];
      all = all.flatMap((one) => values.map((value) => ({ ...one, [name]: value })));
    }
    const keys: EntityKey[] = [];
    for (const values of all) {
      const isOpen = ({ field, options }: Segment) =>
        !options.absent && (values[field] ?? undefined) === undefined;
      if (segmentsOf(this).some(isOpen)) continue;
      const key = { partitionKey: this.partition.encode(values), rowKey: this.row.encode(values) };
      assertKeyFits(key, this.#profile);
      if (!hasKey(keys, key)) keys.push(key);
    }
    return keys;
  }

  /** The properties that every entry carries, with the tokens of the write that wrote it. */
  marks(
    tokens: string,
    { version }: Pick<Unknown, "version"> = this.base,
  ): Record<string, EdmValue> {
    return {
      [this.base.typeProperty]: text(`${this.tag}${version}`),
      [WRITE_TOKENS]: text(tokens),
    };
  }
}

/** The entries of an index whose entries are rows for one entity each. */
export class EntryRows extends EntryKeys {
  readonly #index: string;
  readonly #copy: Copy;
  readonly #each: Each;
  /** The fields an entry provides without its base; undefined for all. */
  readonly #covered: ReadonlySet<string> | undefined;

  constructor(context: FollowerContext, index: Index) {
    super(context, index);
    const { copy = "full", each = {} } = index.options;
    this.#index = context.name;
    this.#copy = copy;
    this.#each = each;
    const inKey = segmentsOf(this).filter(({ lossless }) => lossless);
    this.#covered =
      copy === "full"
        ? undefined
        : new Set([
            ...this.base.inKeys,
            ...inKey.map(({ field }) => field),
            ...(copy === "keys" ? [] : copy),
          ]);
  }

  isCovered(fields: readonly string[] | undefined): boolean {
    return !this.#covered || (fields?.every((field) => this.#covered?.has(field)) ?? false);
  }

  notComparable(field: string): string | undefined {
    const isRepeated = this.#copy === "full" || this.#copy.includes(field);
    return isRepeated || this.base.inKeys.has(field)
      ? this.base.notComparable(field)
      : `is not copied to the entries of ${this.#index}`;
  }

  /** What `$select` must name; `own` are the properties that identify the base. */
  projection(
    fields: readonly string[] | undefined,
    own: readonly string[],
  ): readonly string[] | undefined {
    if (!this.isCovered(fields)) return [...own, this.base.typeProperty];
    const stored = this.base.selectFor(fields);
    return stored && [...own, ...stored];
  }

  /** The properties an entry copies from its base. A full copy includes those this definition does not know. */
  copyOf(row: Row, unknown?: Unknown): Record<string, EdmValue> {
    if (this.#copy === "full") return { ...unknown?.properties, ...this.base.properties(row) };
    return this.base.properties(row, this.#copy === "keys" ? [] : this.#copy);
  }

  isEntry({ properties }: StoredEntity): boolean {
    return String(properties[this.base.typeProperty]?.value).startsWith(this.tag);
  }

  /**
   * The entity as its entry shows it. The ETag is the entry's; a conditional write needs an ETag read from the
   * base.
   */
  decode(
    entry: StoredEntity,
    base: EntityKey,
    fields: readonly string[] | undefined,
  ): Row | undefined {
    const inKey: Record<string, unknown> = {};
    this.partition.decode(entry.partitionKey, inKey);
    this.row.decode(entry.rowKey, inKey);
    for (const name of Object.keys(this.#each)) delete inKey[name];
    const tag = String(entry.properties[this.base.typeProperty]?.value);
    const version = Number(tag.slice(this.tag.length));
    return project(this.base.decode({ ...entry, ...base }, version, inKey), fields);
  }
}
