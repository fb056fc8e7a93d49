import { entity, type Infer } from "./entities/entity.ts";
import type { Changes, KeyOf } from "./entities/repository.ts";
import {
  commitSteps,
  NEWER_VERSION_MESSAGE,
  openEntity,
  retryWhileStale,
  Stale,
  type WriteOptions,
  withContribution,
} from "./entities/write.ts";
import { definitionRefused, tableError, validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import { within } from "./keys/key-range.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import { padded } from "./keys/number.ts";
import {
  assertEntityFits,
  assertKeyFits,
  EntityRows,
  type Fields,
  type Row,
  TYPE_PROPERTY,
} from "./model/entity-rows.ts";
import type { AnyEntity } from "./model/follower.ts";
import type { CheckedKey } from "./model/key-query.ts";
import { type Openable, openable } from "./model/openable.ts";
import { type EdmValue, text } from "./ports/edm.ts";
import { deleteOf } from "./ports/mutation.ts";
import { isRefusalInside } from "./ports/port-error.ts";
import type { EntityKey, Mutation, StoredEntity } from "./ports/tables.ts";
import { pagesOf } from "./query/pages.ts";
import type { Saved } from "./query/query.ts";
import type { Session } from "./store/session.ts";
import { tokensOf, WRITE_TOKENS } from "./store/write-token.ts";

export interface WideOptions<F extends Fields, P extends KeyDeclaration, R extends KeyDeclaration> {
  readonly version: number;
  /** In an order that never changes: later versions add fields at the end. */
  readonly fields: F;
  readonly key: {
    readonly partition: P & CheckedKey<P, Infer<F>>;
    readonly row: R & CheckedKey<R, Infer<F>>;
  };
  /** Fields per row: at most 248, the default. It must never change either. */
  readonly perPart?: number;
}

export interface Wide<T, P extends KeyDeclaration, R extends KeyDeclaration> {
  /** @throws conflict when concurrent whole writes keep it from reading one state. 1 R, p E for p parts. */
  read(key: KeyOf<P, R>): Promise<Saved<T> | undefined>;
  /** Writes the whole value, new or existing, all parts or none. 2 R, 1 + p E. */
  write(entity: T, options?: WriteOptions): Promise<void>;
  /**
   * Changes some fields of an existing entity; undefined removes one. Fields of one part: 1 R, 1 or 2 E; of
   * several: a read and a write. @throws not-found.
   */
  merge(fields: KeyOf<P, R> & Changes<T>, options?: WriteOptions): Promise<void>;
  /** False when there was nothing to delete. 2 R, 1 + p E. */
  delete(key: KeyOf<P, R>, options?: WriteOptions): Promise<boolean>;
}

const PER_PART_MAX = 248;
/** Two digits in the row key; a transaction holds a hundred. */
const PARTS_MAX = 99;
const READS_MAX = 4;
/** `3:01J…`: the number of parts, and the token of the write that wrote them. Equal in all parts of an entity. */
const PARTS = "rh_x";

/** An entity with more fields than a row holds, in several rows that are written together. */
export function wide<
  const F extends Fields,
  const P extends KeyDeclaration,
  const R extends KeyDeclaration,
>(name: string, options: WideOptions<F, P, R>): Openable<Wide<Infer<F>, P, R>> {
  const { version, key, perPart = PER_PART_MAX } = options;
  const fields: Fields = options.fields;
  const rows = new EntityRows(name, { version, fields, key });
  const stored = Object.keys(fields).filter((field) => !rows.inKeys.has(field));
  const count = Math.max(1, Math.ceil(stored.length / perPart));
  if (!(perPart >= 1 && perPart <= PER_PART_MAX && count <= PARTS_MAX)) {
    const message = `${stored.length} fields at ${perPart} in a part; ${PARTS_MAX} parts of at most ${PER_PART_MAX} are allowed`;
    throw definitionRefused(name, "fields", message);
  }
  const parts = Array.from({ length: count }, (_, part) =>
    stored.slice(part * perPart, (part + 1) * perPart),
  );
  // Each part is checked as the entity that it looks like in storage.
  for (const part of parts) {
    const names = new Set([...rows.keyFields, ...part]);
    const own = Object.entries(fields).filter(([field]) => names.has(field));
    entity(name, {
      version,
      fields: Object.fromEntries(own) as Fields,
      key: { partition: key.partition as KeyDeclaration, row: key.row as KeyDeclaration },
    });
  }
  const definition: AnyEntity = { name, table: name, rows, indexes: {}, followers: {} };
  return openable([name], (session) => new OpenWide(session, definition, parts));
}

class OpenWide {
  readonly #session: Session;
  readonly #definition: AnyEntity;
  readonly #parts: readonly (readonly string[])[];

  constructor(session: Session, definition: AnyEntity, parts: readonly (readonly string[])[]) {
    this.#session = session;
    this.#definition = definition;
    this.#parts = parts;
  }

  async read(key: KeyValues): Promise<Row | undefined> {
    const first = this.#keyOf(key, 0);
    for (let reads = 1; reads <= READS_MAX; reads++) {
      const found = await this.#partsOf(first);
      if (found.size === 0) return undefined;
      const whole = this.#assemble(first, found);
      if (whole) return whole;
    }
    const message = `After ${READS_MAX} reads, the parts of ${first.rowKey} were still from different writes.`;
    throw tableError("conflict", message, { key: first.rowKey });
  }

  write(entity: Row, options: WriteOptions = {}): Promise<void> {
    return this.#uncontended(options, async () => {
      await this.#definition.rows.validate(entity);
      await this.#commitWhole(entity, await this.#first(entity));
    });
  }

  async merge(fields: Row, options: WriteOptions = {}): Promise<void> {
    if (await this.#mergeOnePart(fields)) return;
    await this.#uncontended(options, async () => {
      const before = await this.#first(fields);
      const current = before && (await this.read(fields));
      if (!current || !before) throw this.#notFound(fields);
      if (current.etag !== before.etag) throw new Stale(before.rowKey);
      const next = { ...current, ...fields };
      await this.#definition.rows.validate(next);
      await this.#commitWhole(next, before);
    });
  }

  delete(key: KeyValues, options: WriteOptions = {}): Promise<boolean> {
    return this.#uncontended(options, async () => {
      const before = await this.#first(key);
      if (!before) return false;
      const others: Mutation[] = [];
      for (let part = 1; part < countOf(before); part++) {
        others.push(deleteOf(this.#keyOf(key, part)));
      }
      await this.#commit(deleteOf(before, before.etag), others);
      return true;
    });
  }

  /** False when the change needs the whole entity: several parts, a removal, a part that was never written. */
  async #mergeOnePart(fields: Row): Promise<boolean> {
    const { rows, table } = this.#definition;
    const given = Object.keys(fields).filter((name) => !rows.inKeys.has(name));
    const part = this.#parts.findIndex((names) => names.includes(given[0] ?? ""));
    const fits = given.every(
      (name) => this.#parts[part]?.includes(name) && fields[name] !== undefined,
    );
    if (!fits) return false;
    await rows.validate(fields, given);
    const merge = (part: number, properties: Record<string, EdmValue>) =>
      ({ kind: "merge", ...this.#keyOf(fields, part), ifMatch: "*", properties }) as const;
    const change = merge(part, rows.properties(fields, given));
    try {
      // The first part's ETag guards the whole entity, so it changes with every part.
      await this.#session.tables.commit(table, part === 0 ? [change] : [merge(0, {}), change]);
      return true;
    } catch (error) {
      if (isRefusalInside(error, 404)) return false;
      throw error;
    }
  }

  async #commitWhole(entity: Row, before: StoredEntity | undefined): Promise<void> {
    const { rows } = this.#definition;
    if (before && rows.isNewer(before.properties)) {
      throw validationFailed(before.rowKey, "version", NEWER_VERSION_MESSAGE);
    }
    const token = this.#session.writeToken();
    const mark = text(`${this.#parts.length}:${token}`);
    const [first, ...others] = this.#parts.map((names, part) => {
      const key = this.#keyOf(entity, part);
      const own = rows.encode(
        Object.fromEntries(names.map((name) => [name, entity[name]])),
        token,
        part === 0 ? tokensOf(before?.properties) : undefined,
      );
      const properties = { ...own, [PARTS]: mark };
      assertEntityFits(key, properties);
      return { kind: "insertOrReplace", ...key, properties } as const;
    });
    const surplus: Mutation[] = [];
    for (let part = this.#parts.length; part < countOf(before); part++) {
      surplus.push(deleteOf(this.#keyOf(entity, part)));
    }
    const lead = before
      ? ({ ...first!, kind: "replace", ifMatch: before.etag } as const)
      : ({ ...first!, kind: "insert" } as const);
    await this.#commit(lead, [...others, ...surplus]);
  }

  async #commit(lead: Mutation, others: readonly Mutation[]): Promise<void> {
    const open = openEntity(this.#session, this.#definition);
    const change = { key: lead, token: "" };
    await commitSteps([
      withContribution({ open, lead, change, isUpsert: true }, { mutations: others }),
    ]);
  }

  #first(key: KeyValues): Promise<StoredEntity | undefined> {
    const select = [PARTS, WRITE_TOKENS, TYPE_PROPERTY];
    return this.#session.tables.get(this.#definition.table, this.#keyOf(key, 0), { select });
  }

  async #partsOf(first: EntityKey): Promise<Map<number, StoredEntity>> {
    const { partitionKey, rowKey } = first;
    const prefix = rowKey.slice(0, -2);
    const found = new Map<number, StoredEntity>();
    const range = { partitionKey, rows: within(prefix) };
    for await (const { entities } of pagesOf(this.#session, this.#definition.table, range)) {
      for (const stored of entities) {
        const part = stored.rowKey.slice(prefix.length);
        const isPart = this.#definition.rows.versionOf(stored.properties) !== undefined;
        if (isPart && /^\d\d$/.test(part)) found.set(Number(part), stored);
      }
    }
    return found;
  }

  /** Undefined when the parts are from different writes, or one is missing. */
  #assemble(key: EntityKey, found: ReadonlyMap<number, StoredEntity>): Row | undefined {
    const first = found.get(1);
    const mark = first?.properties[PARTS]?.value;
    let properties = first?.properties;
    for (let part = 2; part <= countOf(first); part++) {
      const stored = found.get(part);
      if (stored?.properties[PARTS]?.value !== mark) return undefined;
      properties = { ...stored?.properties, ...properties };
    }
    const { rows } = this.#definition;
    const rowKey = key.rowKey.slice(0, -3);
    return first && properties && rows.decode({ ...first, rowKey, properties });
  }

  #keyOf(values: KeyValues, part: number): EntityKey {
    const { rows } = this.#definition;
    const { partitionKey, rowKey } = rows.key(values, this.#session.profile);
    const key = { partitionKey, rowKey: rowKey + rows.row.separator + padded(part + 1, 2) };
    assertKeyFits(key, this.#session.profile);
    return key;
  }

  #notFound(key: KeyValues): Error {
    const { name, table } = this.#definition;
    const { rowKey } = this.#keyOf(key, 0);
    return tableError("not-found", `There is no ${name} ${rowKey} in ${table}.`, {
      table,
      key: rowKey,
    });
  }

  #uncontended<Result>(options: WriteOptions, attempt: () => Promise<Result>): Promise<Result> {
    return retryWhileStale(this.#session, options, attempt);
  }
}

function countOf(first: StoredEntity | undefined): number {
  return Number.parseInt(String(first?.properties[PARTS]?.value ?? 0), 10);
}
