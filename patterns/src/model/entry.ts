import type { KeyShape } from "../keys/key-shape.ts";
import { type EdmValue, text } from "../ports/edm.ts";
import type { EntityKey, StoredEntity } from "../ports/tables.ts";
import { WRITE_TOKENS } from "../store/write-token.ts";
import type { AnyEntity } from "./entity.ts";
import { type EntityRows, project, type Row } from "./entity-rows.ts";
import type { FollowerContext } from "./follower.ts";

/** What of the base an entry repeats: everything, only its key, or the fields named. */
export type Copy = "full" | "keys" | readonly string[];

/** What the declarations of all index kinds have in common. */
export interface EntryOptions {
  /** "full" otherwise: a read by the index need not read the base. */
  readonly copy?: Copy;
  /** Pure. Entities that do not match have no entry. */
  readonly when?: (entity: Row) => boolean;
}

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
): string[] {
  const { rows, table, indexes } = entity;
  const shapes = [place.partition, place.row];
  const problems = shapes.flatMap((shape) => shape.problems());
  const named = new Set(shapes.flatMap(({ segments }) => segments.map(({ field }) => field)));
  const copied = typeof copy === "string" ? [] : copy;
  for (const field of [...named, ...copied]) {
    if (!(field in rows.fields)) problems.push(`needs the field "${field}", which is not declared`);
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
  const isNear = (x: string, y: string) => x.startsWith(y) || y.startsWith(x);
  return (
    a.table.toLowerCase() === b.table.toLowerCase() &&
    isNear(a.partition.prefix, b.partition.prefix) &&
    isNear(a.row.prefix, b.row.prefix)
  );
}

/** How the entries of one index look in storage, whatever table and partition they are in. */
export class EntryRows {
  /** What `rh_t` of its entries begins with. */
  readonly tag: string;
  readonly #name: string;
  readonly #rows: EntityRows;
  readonly #shapes: readonly KeyShape[];
  readonly #copy: Copy;
  readonly #when: (entity: Row) => boolean;
  /** The fields an entry can give without its base; undefined for all. */
  readonly #covered: ReadonlySet<string> | undefined;

  constructor(
    { entity, name }: FollowerContext,
    shapes: readonly KeyShape[],
    { copy = "full", when = () => true }: EntryOptions,
  ) {
    this.#name = name;
    this.#rows = entity.rows;
    this.#shapes = shapes;
    this.#copy = copy;
    this.#when = when;
    this.tag = `${entity.rows.name}.${name}:`;
    const inKey = shapes.flatMap(({ segments }) => segments.filter(({ lossless }) => lossless));
    this.#covered =
      copy === "full"
        ? undefined
        : new Set([
            ...entity.rows.inKeys,
            ...inKey.map(({ field }) => field),
            ...(copy === "keys" ? [] : copy),
          ]);
  }

  /** False for an entity that does not match, or lacks a value of the key. */
  hasEntry(row: Row): boolean {
    const hasValues = this.#shapes.every(({ segments }) =>
      segments.every(({ field }) => row[field] !== undefined && row[field] !== null),
    );
    return hasValues && this.#when(row);
  }

  isCovered(fields: readonly string[] | undefined): boolean {
    return !this.#covered || (fields?.every((field) => this.#covered?.has(field)) ?? false);
  }

  notComparable(field: string): string | undefined {
    if (this.#rows.inKeys.has(field)) return "stands in the key; bound it in range(…)";
    return this.#copy === "full" || this.#copy.includes(field)
      ? undefined
      : `is not repeated on the entries of ${this.#name}`;
  }

  /** What `$select` must name; `own` are the properties that lead to the base. */
  projection(
    fields: readonly string[] | undefined,
    own: readonly string[],
  ): readonly string[] | undefined {
    const always = [...own, this.#rows.typeProperty];
    if (!this.isCovered(fields)) return always;
    if (!fields || this.#rows.needsWholeRows) return undefined;
    const stored = fields.filter((name) => !this.#rows.inKeys.has(name));
    return [...stored.map((name) => this.#rows.propertyOf(name)), ...always];
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
    inKey: Row | undefined,
    fields: readonly string[] | undefined,
  ): Row | undefined {
    const { typeProperty } = this.#rows;
    const tag = String(entry.properties[typeProperty]?.value).replace(this.tag, "");
    const properties = { ...entry.properties, [typeProperty]: text(`${this.#rows.name}:${tag}`) };
    const row = this.#rows.decode({ ...entry, ...base, properties });
    return project(row && { ...inKey, ...row }, fields);
  }
}
