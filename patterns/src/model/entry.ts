import type { Segment } from "../keys/key.ts";
import type { KeyShape } from "../keys/key-shape.ts";
import { beginAlike } from "../keys/text.ts";
import { type EdmValue, text } from "../ports/edm.ts";
import type { EntityKey, StoredEntity } from "../ports/tables.ts";
import { and, compare, type Filter } from "../query/filter.ts";
import { WRITE_TOKENS } from "../store/write-token.ts";
import type { AnyEntity } from "./entity.ts";
import { type EntityRows, project, type Row } from "./entity-rows.ts";
import type { FollowerContext } from "./follower.ts";

/** What of the base an entry repeats: everything, only its key, or the fields named. */
export type Copy = "full" | "keys" | readonly string[];

/** What the declarations of all index kinds have in common. */
export interface EntryOptions {
  /** Default: "full", so that a read by the index need not read the base. */
  readonly copy?: Copy;
  /** Pure. Entities that do not match have no entry. */
  readonly when?: (entity: Row) => boolean;
  readonly each?: Each;
}

/**
 * Segments of the entry's key that are no field, with all the values an entity has for each: it has an entry
 * for every value (for every combination, if there are several), and none if there is no value. Pure.
 */
export type Each = Readonly<Record<string, (entity: Row) => readonly unknown[] | undefined>>;

/** Runs a function of the user's that must be pure. */
export type Computed = <Result>(
  name: string,
  compute: (entity: Row) => Result,
  entity: Row,
) => Result;

/** Where the entries of an index stand. */
export interface Place {
  readonly table: string;
  readonly partition: KeyShape;
  readonly row: KeyShape;
}

/** Why no entries can be kept for `entity` at `place`; one sentence each. */
export function entryProblems(
  entity: AnyEntity,
  name: string,
  place: Place,
  copy: Copy,
  /** The segments of the base's key that an entry must name, unless it is the only one of its value. */
  naming: readonly { readonly field: string }[],
  each: Each = {},
): string[] {
  const { rows, table, indexes } = entity;
  const shapes = [place.partition, place.row];
  const problems = shapes.flatMap((shape) => shape.problems());
  const named = new Set(segmentsOf(place).map(({ field }) => field));
  const copied = typeof copy === "string" ? [] : copy;
  for (const field of [...[...named].filter((field) => !(field in each)), ...copied]) {
    if (!(field in rows.fields)) problems.push(`needs the field "${field}", which is not declared`);
  }
  for (const field of Object.keys(each)) {
    if (field in rows.fields) problems.push(`gives each "${field}", which is a field already`);
    if (!named.has(field)) problems.push(`gives each "${field}", which its key does not name`);
  }
  const unnamed = naming.filter(({ field }) => !named.has(field));
  if (unnamed.length > 0) {
    const list = unnamed.map(({ field }) => `"${field}"`).join(", ");
    problems.push(`is not unique and must name the entity: add ${list} to its key`);
  }
  const others: [string, Place | undefined][] = [
    ["the entity", { table, partition: rows.partition, row: rows.row }],
    ...Object.entries(indexes).map(([other, index]): [string, Place | undefined] => [
      other,
      other === name ? undefined : index.place(entity),
    ]),
  ];
  for (const [other, that] of others) {
    if (that && mayCollide(place, that)) {
      problems.push(
        `and ${other} have keys that may collide: begin each with a literal of its own`,
      );
    }
  }
  return problems;
}

/** Without a literal in front, or with one that begins the other, some value may make the keys equal. */
function mayCollide(a: Place, b: Place): boolean {
  return (
    a.table.toLowerCase() === b.table.toLowerCase() &&
    beginAlike(a.partition.prefix, b.partition.prefix) &&
    beginAlike(a.row.prefix, b.row.prefix)
  );
}

export function isSameKey(a: EntityKey | undefined, b: EntityKey | undefined): boolean {
  return a?.partitionKey === b?.partitionKey && a?.rowKey === b?.rowKey;
}

export function hasKey(keys: readonly EntityKey[], key: EntityKey): boolean {
  return keys.some((one) => isSameKey(one, key));
}

/** Rows whose type property begins with `tag`; `;` follows the `:` it ends with. */
export function entriesOf(typeProperty: string, tag: string): Filter {
  const from = compare(typeProperty, "ge", text(tag));
  return and(from, compare(typeProperty, "lt", text(`${tag.slice(0, -1)};`)))!;
}

/** For how long nobody wrote the row, by the service's clock alone; one of unknown age is young. */
export function ageOf({ timestamp, servedAtMs }: StoredEntity): number {
  return (servedAtMs ?? 0) - Date.parse(timestamp ?? "");
}

/** How the entries of one index look in storage, whatever table and partition they are in. */
export class EntryRows {
  /** What `rh_t` of its entries begins with. */
  readonly tag: string;
  readonly #name: string;
  readonly #rows: EntityRows;
  readonly #place: Place;
  readonly #copy: Copy;
  readonly #when: ((entity: Row) => boolean) | undefined;
  readonly #each: Each;
  readonly #computed: Computed;
  /** The fields an entry can give without its base; undefined for all. */
  readonly #covered: ReadonlySet<string> | undefined;

  constructor(
    { database, entity, name }: FollowerContext,
    place: Place,
    { copy = "full", when, each = {} }: EntryOptions,
  ) {
    this.#computed = database.computed;
    this.#name = name;
    this.#rows = entity.rows;
    this.#place = place;
    this.#copy = copy;
    this.#when = when;
    this.#each = each;
    this.tag = `${entity.rows.name}.${name}:`;
    const inKey = segmentsOf(place).filter(({ lossless }) => lossless);
    this.#covered =
      copy === "full"
        ? undefined
        : new Set([
            ...entity.rows.inKeys,
            ...inKey.map(({ field }) => field),
            ...(copy === "keys" ? [] : copy),
          ]);
  }

  /**
   * Where the entries of an entity stand, each once. None for an entity that does not match or lacks a
   * value of the key.
   */
  keysOf(row: Row): EntityKey[] {
    const { partition, row: rowShape } = this.#place;
    const computed = this.#computed;
    let all = !this.#when || computed(`${this.tag} when`, this.#when, row) ? [row] : [];
    for (const [name, valuesOf] of Object.entries(this.#each)) {
      const values = computed(`${this.tag} each ${name}`, valuesOf, row) ?? [];
      all = all.flatMap((one) => values.map((value) => ({ ...one, [name]: value })));
    }
    const keys: EntityKey[] = [];
    for (const values of all) {
      const isOpen = ({ field, options }: Segment) =>
        !options.absent && (values[field] ?? undefined) === undefined;
      if (segmentsOf(this.#place).some(isOpen)) continue;
      const key = { partitionKey: partition.encode(values), rowKey: rowShape.encode(values) };
      if (!hasKey(keys, key)) keys.push(key);
    }
    return keys;
  }

  isCovered(fields: readonly string[] | undefined): boolean {
    return !this.#covered || (fields?.every((field) => this.#covered?.has(field)) ?? false);
  }

  notComparable(field: string): string | undefined {
    const isRepeated = this.#copy === "full" || this.#copy.includes(field);
    return isRepeated || this.#rows.inKeys.has(field)
      ? this.#rows.notComparable(field)
      : `is not repeated on the entries of ${this.#name}`;
  }

  /** What `$select` must name; `own` are the properties that lead to the base. */
  projection(
    fields: readonly string[] | undefined,
    own: readonly string[],
  ): readonly string[] | undefined {
    if (!this.isCovered(fields)) return [...own, this.#rows.typeProperty];
    const stored = this.#rows.selectFor(fields);
    return stored && [...own, ...stored];
  }

  /** The fields of the base that an entry repeats, as they are stored. */
  copyOf(row: Row): Record<string, EdmValue> {
    return this.#rows.properties(
      row,
      this.#copy === "full" ? undefined : this.#copy === "keys" ? [] : this.#copy,
    );
  }

  /** What every entry carries, with the tokens of the write that made it. */
  marks(tokens: string): Record<string, EdmValue> {
    return {
      [this.#rows.typeProperty]: text(`${this.tag}${this.#rows.version}`),
      [WRITE_TOKENS]: text(tokens),
    };
  }

  isEntry({ properties }: StoredEntity): boolean {
    return String(properties[this.#rows.typeProperty]?.value).startsWith(this.tag);
  }

  /**
   * The entity as the entry of `base` tells it. The ETag is the entry's: a conditional write of the base
   * takes one read from the base.
   */
  decode(
    entry: StoredEntity,
    base: EntityKey,
    fields: readonly string[] | undefined,
  ): Row | undefined {
    const rows = this.#rows;
    const { partition, row: rowShape } = this.#place;
    const inKey = { ...partition.decode(entry.partitionKey), ...rowShape.decode(entry.rowKey) };
    for (const name of Object.keys(this.#each)) delete inKey[name];
    const version = Number(
      String(entry.properties[rows.typeProperty]?.value).slice(this.tag.length),
    );
    return project(rows.decode({ ...entry, ...base }, version, inKey), fields);
  }
}

function segmentsOf({ partition, row }: Place): Segment[] {
  return [...partition.segments, ...row.segments];
}
