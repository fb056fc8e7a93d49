import { type Issue, reasonOf, refused, tableError, validationFailed } from "../errors.ts";
import { KEY_LENGTH_MAX, type KeyDeclaration } from "../keys/key.ts";
import { isOneRow } from "../keys/key-range.ts";
import { KeyShape, type KeyValues } from "../keys/key-shape.ts";
import { type EdmValue, naturalValue, type Properties, text } from "../ports/edm.ts";
import { printKey } from "../ports/mutation.ts";
import type { Profile } from "../ports/profile.ts";
import type { EntityKey, StoredEntity } from "../ports/tables.ts";
import { tokensAfter, WRITE_TOKENS } from "../store/write-token.ts";
import { ENTITY_BYTES_MAX, sizeOf } from "./entity-size.ts";
import type { Field } from "./field.ts";

/** A decoded entity, its fields by name. */
export type Row = Readonly<Record<string, unknown>>;

export type Fields = Readonly<Record<string, Field>>;

/** Converts an entity from one version to the next. Pure, and accepts any value that the old version could hold. */
export type Upgrade = (old: Row) => Row;

/** The property that holds a row's type and version: `Employee:2`, or `Employee.email:2` for an entry. */
export const TYPE_PROPERTY = "rh_t";

export interface RowsDeclaration {
  /** Increases whenever stored rows of the previous version need an upgrade. */
  readonly version: number;
  readonly fields: Fields;
  readonly key: { readonly partition: KeyDeclaration; readonly row: KeyDeclaration };
  /** The upgrade from each version to the next. */
  readonly upgrade?: Readonly<Record<number, Upgrade>>;
  /** The property for type and version, for tables that already have one. */
  readonly typeProperty?: string;
}

interface StoredField {
  readonly name: string;
  readonly property: string;
  readonly field: Field;
}

/** The properties of a row that this definition does not know, and the version of the definition that does. */
export interface Unknown {
  readonly properties: Properties;
  readonly version: number;
}

/** How the entities of one definition are stored. */
export class EntityRows {
  readonly name: string;
  readonly version: number;
  readonly fields: Fields;
  readonly partition: KeyShape;
  readonly row: KeyShape;
  readonly typeProperty: string;
  /** The names of the properties that store fields. */
  readonly known: ReadonlySet<string>;
  /** Fields that can be read back from the keys and are therefore not stored as properties. */
  readonly inKeys: ReadonlySet<string>;
  /** Fields that the keys are built from; they cannot change. */
  readonly keyFields: ReadonlySet<string>;
  readonly #upgrades: Readonly<Record<number, Upgrade>>;
  /** The fields stored as properties. */
  readonly #stored: readonly StoredField[];

  constructor(
    name: string,
    { version, fields, key, upgrade = {}, typeProperty = TYPE_PROPERTY }: RowsDeclaration,
  ) {
    this.name = name;
    this.version = version;
    this.fields = fields;
    this.partition = new KeyShape(key.partition);
    this.row = new KeyShape(key.row);
    this.typeProperty = typeProperty;
    this.#upgrades = upgrade;
    const segments = [...this.partition.segments, ...this.row.segments];
    this.keyFields = new Set(segments.map(({ field }) => field));
    this.inKeys = new Set(segments.filter(({ lossless }) => lossless).map(({ field }) => field));
    this.known = new Set(Object.keys(fields).map((name) => this.propertyOf(name)));
    this.#stored = Object.entries(fields)
      .filter(([name]) => !this.inKeys.has(name))
      .map(([name, field]) => ({ name, property: field.property ?? name, field }));
  }

  /** @throws validation-failed or key-too-long. */
  key(values: KeyValues, profile: Profile): EntityKey {
    const key = { partitionKey: this.partition.encode(values), rowKey: this.row.encode(values) };
    assertKeyFits(key, profile);
    return key;
  }

  partitionKey(query: KeyValues): string {
    return partitionKeyOf(this.partition, query);
  }

  propertyOf(field: string): string {
    return this.fields[field]?.property ?? field;
  }

  /** What `$select` must name to return these fields; undefined for everything. */
  selectFor(fields: readonly string[] | undefined): string[] | undefined {
    if (!fields || this.needsWholeRows) return undefined;
    const stored = fields.filter((name) => !this.inKeys.has(name));
    return [...stored.map((name) => this.propertyOf(name)), this.typeProperty];
  }

  /** Why the service cannot compare this field; undefined if it can. */
  notComparable(field: string): string | undefined {
    return this.inKeys.has(field) ? "is in the key; bind it in range(…)" : undefined;
  }

  /** Whether projections must read whole rows, because an upgrade may need any field. */
  get needsWholeRows(): boolean {
    return Object.keys(this.#upgrades).length > 0;
  }

  /**
   * Checks the type, presence and schema of the named fields, and that the entity has no others.
   * @throws validation-failed with every issue found.
   */
  async validate(given: Row, names = Object.keys(this.fields)): Promise<void> {
    const issues: Issue[] = [];
    // In plain JavaScript the entity may be missing.
    const entity: Row = Object(given);
    for (const name of Object.keys(entity)) {
      if (!Object.hasOwn(this.fields, name) && name !== "etag" && entity[name] !== undefined) {
        issues.push({ path: name, message: `${this.name} has no such field` });
      }
    }
    for (const name of names) {
      const field = this.fields[name];
      const value = entity[name];
      if (!field) continue;
      if (value === undefined || value === null) {
        if (!field.isOptional) issues.push({ path: name, message: "the value is missing" });
        continue;
      }
      try {
        field.encode(value);
        if (field.schema) issues.push(...(await field.issues(name, value)));
      } catch (error) {
        issues.push({ path: name, message: reasonOf(error) });
      }
    }
    if (issues.length > 0) throw refused("validation-failed", this.name, issues);
  }

  /** The stored form of the named fields, without those that are read back from the keys. */
  properties(
    entity: Row,
    names: Iterable<string> = Object.keys(this.fields),
  ): Record<string, EdmValue> {
    const properties: Record<string, EdmValue> = {};
    for (const name of names) {
      const value = entity[name];
      const field = this.fields[name];
      if (!field || this.inKeys.has(name) || value === undefined || value === null) continue;
      properties[field.property ?? name] = field.encode(value);
    }
    return properties;
  }

  /** The whole row to store, without the properties that this definition does not know. */
  encode(
    entity: Row,
    token: string,
    previousTokens?: string,
    { version }: Pick<Unknown, "version"> = this,
  ): Record<string, EdmValue> {
    // No spread: see `queryRun`.
    return Object.assign(this.properties(entity), {
      [this.typeProperty]: text(`${this.name}:${version}`),
      [WRITE_TOKENS]: text(tokensAfter(token, previousTokens)),
    });
  }

  /** The version that stored a row; undefined for a row of another type. */
  versionOf(properties: Properties): number | undefined {
    const tag = properties[this.typeProperty]?.value;
    // Rows that other software wrote have no tag and are taken for what their keys say.
    if (tag === undefined) return this.version;
    const [name, version] = String(tag).split(":");
    return name === this.name ? Number(version) : undefined;
  }

  /** Whether a newer definition wrote the row, which may then hold fields that this one does not know. */
  isNewer(properties: Properties): boolean {
    return (this.versionOf(properties) ?? 0) > this.version;
  }

  /** The properties that newer definitions or other software left in a row. */
  unknownIn(stored: Properties): Unknown {
    const properties: Record<string, EdmValue> = {};
    for (const [name, value] of Object.entries(stored)) {
      if (!this.known.has(name) && name !== this.typeProperty && name !== WRITE_TOKENS) {
        properties[name] = value;
      }
    }
    return { properties, version: Math.max(this.version, this.versionOf(stored) ?? 0) };
  }

  /**
   * Undefined for a row that is not of this definition, such as an index entry. Everything is decoded into the
   * one object `fields`, because every row of every page passes through here.
   */
  decode(
    stored: Omit<StoredEntity, "timestamp">,
    version = this.versionOf(stored.properties),
    fields: Record<string, unknown> = {},
  ): Record<string, unknown> | undefined {
    if (!version || !this.partition.decode(stored.partitionKey, fields)) return undefined;
    if (!this.row.decode(stored.rowKey, fields)) return undefined;
    this.#decodeInto(fields, stored.properties);
    const row = this.#upgrade(fields, version, stored.properties);
    row.etag = stored.etag;
    return row;
  }

  #decodeInto(values: Record<string, unknown>, properties: Properties): void {
    for (const { name, property, field } of this.#stored) {
      const stored = properties[property];
      if (stored === undefined) continue;
      try {
        values[name] = field.decode(stored);
      } catch (error) {
        throw validationFailed(this.name, name, reasonOf(error));
      }
    }
  }

  #upgrade(
    fields: Record<string, unknown>,
    version: number,
    properties: Properties,
  ): Record<string, unknown> {
    if (version >= this.version || !this.needsWholeRows) return fields;
    let row: Row = fields;
    for (const [name, value] of Object.entries(this.unknownIn(properties).properties)) {
      row = { ...row, [name]: naturalValue(value) };
    }
    for (let from = version; from < this.version; from++) row = this.#upgrades[from]?.(row) ?? row;
    return Object.fromEntries(Object.entries(row).filter(([name]) => name in this.fields));
  }
}

type Keys = Pick<EntityRows, "partition" | "row">;

/** The rows a query selects. Properties that a query has besides a whole key are ignored, as in `get`. */
export function selected(rows: EntityRows, place: Keys, query: KeyValues) {
  const { partition, row } = place;
  const partitionKey = partitionKeyOf(partition, query);
  const range = row.rangeOf(query);
  if (!isOneRow(range)) assertBinds(query, partition, row);
  return { partitionKey, range, compared: shortenedValues(rows, place, query) };
}

/** The values of `query` for fields of which the keys hold only a hash; for most keys none. */
export function shortenedValues(
  { fields }: EntityRows,
  { partition, row }: Keys,
  query: KeyValues,
): readonly (readonly [field: string, value?: unknown])[] {
  const segments = [...partition.segments, ...row.segments];
  // Segments that `each` computes are not fields, and rows do not hold them.
  const shortened = segments.filter(({ field, options }) => options.isShortened && field in fields);
  return shortened.map(({ field }) => [field, query?.[field]]);
}

/** Whether this is the requested row, and not another with the same key. */
export function isRequestedRow(row: Row, compared: ReturnType<typeof shortenedValues>): boolean {
  // A query requests the entities without a value of a `missing` segment by null.
  return compared.every(([field, value = row[field]]) => (row[field] ?? null) === (value ?? null));
}

/**
 * @throws validation-failed for a property that is no part of the key: ignored, it would select more than
 * intended.
 */
export function assertBinds(query: KeyValues, ...shapes: readonly KeyShape[]): void {
  const names = shapes.flatMap(({ segments }) => segments.map(({ name }) => name));
  const other = Object.keys(query).find(
    (name) => query[name] !== undefined && !names.includes(name),
  );
  if (other) throw validationFailed("The query", other, "is not a key segment");
}

/** The partition a query names. @throws validation-failed when it leaves a segment unbound. */
export function partitionKeyOf(shape: KeyShape, query: KeyValues): string {
  const range = shape.rangeOf(query);
  if (isOneRow(range)) return range.from!;
  const open = shape.segments.find(({ name }) => query?.[name] === undefined);
  const message = "a range needs the whole partition key";
  throw validationFailed("The query", open?.name ?? "partition", message);
}

/** Reduces a row to the selected fields and the ETag. */
export function project(
  row: Row | undefined,
  fields: readonly string[] | undefined,
): Row | undefined {
  if (!row || !fields) return row;
  return Object.fromEntries(
    Object.entries(row).filter(([name]) => name === "etag" || fields.includes(name)),
  );
}

export function assertEntityFits(key: EntityKey, properties: Properties): void {
  const bytes = sizeOf(key, properties);
  if (bytes <= ENTITY_BYTES_MAX) return;
  const remedy = "store large values in blobs, or split the entity into several rows";
  throw tableError(
    "entity-too-large",
    `${printKey(key)} takes ${bytes} bytes; at most ${ENTITY_BYTES_MAX} are allowed.`,
    { bytes, limit: ENTITY_BYTES_MAX, remedy },
    { remedy },
  );
}

export function assertKeyFits({ partitionKey, rowKey }: EntityKey, profile: Profile): void {
  assertLength(partitionKey, KEY_LENGTH_MAX);
  assertLength(rowKey, profile.rowKeyLengthMax);
}

/** @throws validation-failed for an empty key, key-too-long. */
export function assertLength(key: string, limit: number): void {
  if (key === "") {
    throw validationFailed("A key", "key", "an empty key is not portable");
  }
  if (key.length > limit) {
    throw tableError(
      "key-too-long",
      `The key "${key.slice(0, 40)}…" has ${key.length} characters; at most ${limit} are allowed.`,
      { key, length: key.length, limit },
    );
  }
}
