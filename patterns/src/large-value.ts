import type { Database } from "./database.ts";
import { isTableError, refused, tableError, validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import type { AnyEntity, EntityDefinition, Infer, Openable } from "./model/entity.ts";
import type { Indexes } from "./model/entity-index.ts";
import type { Fields, Row } from "./model/entity-rows.ts";
import { type Field, f } from "./model/field.ts";
import { openable } from "./model/openable.ts";
import type { BlobContent, ByteRange } from "./ports/blobs.ts";
import { isRefusal } from "./ports/port-error.ts";
import { EntityRepository, type KeyOf } from "./repository.ts";
import { PointedBlobs } from "./store/pointed-blobs.ts";

/** The properties of an entity that point to a large value: its blob's name, length, hash and type. */
export type LargeValueFields<Name extends string> = {
  readonly [P in Name | `${Name}_sha256` | `${Name}_type`]: Field<string, true>;
} & { readonly [P in `${Name}_len`]: Field<number, true> };

/** To be spread among the fields of an entity. */
export function largeValueFields<const Name extends string>(name: Name): LargeValueFields<Name> {
  const text = f.string().optional();
  const fields = {
    [name]: text,
    [`${name}_sha256`]: text,
    [`${name}_type`]: text,
    [`${name}_len`]: f.int32().optional(),
  };
  // The names computed here are those the type computes from `name`.
  return fields as unknown as LargeValueFields<Name>;
}

export interface LargeValueOptions<Name> {
  /** As given to `largeValueFields`. */
  readonly name: Name;
  /** A container for the values of this entity and name alone. */
  readonly container: string;
}

export interface LargeValues<Key> {
  /** Uploads, then points the entity to it, then deletes what it pointed to. 3 or 4 R. @throws not-found. */
  put(key: Key, body: Uint8Array, contentType?: string): Promise<void>;
  /** 2 R. @throws not-found when the blob is gone, validation-failed when it is not what was put. */
  get(key: Key): Promise<LargeValue | undefined>;
  /**
   * The value piece by piece, never held whole; nothing where there is none. Only its length can be compared
   * with what was put. 1 R, and 1 for each piece of 4 MiB.
   * @throws not-found when the value was replaced or deleted meanwhile: begin again.
   */
  stream(key: Key): AsyncIterable<Uint8Array>;
  /** 3 R. False when there is no entity or no value. */
  remove(key: Key): Promise<boolean>;
  /** The entity, then its value. False when there is no entity. 4 R. */
  deleteEntity(key: Key): Promise<boolean>;
  /**
   * Deletes blobs no entity points to that are older than `olderThanMs`, a day otherwise: what crashes
   * left. A read for each blob. @returns how many.
   */
  collect(olderThanMs?: number): Promise<number>;
}

export interface LargeValue {
  readonly body: Uint8Array;
  readonly contentType: string | undefined;
}

const PIECE_BYTES = 4 * 1024 * 1024;

/** Values too large for an entity, in blobs that are never changed: a new value is a new blob. */
export function largeValues<
  F extends Fields,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  I extends Indexes,
>(
  definition: EntityDefinition<string, F, P, R, I>,
  options: LargeValueOptions<keyof Infer<F> & string>,
): Openable<LargeValues<KeyOf<P, R>>> {
  const { name } = options;
  const missing = Object.keys(largeValueFields(name)).filter(
    (field) => !definition.rows.fields[field]?.isOptional,
  );
  if (missing.length > 0) {
    const message = `is not declared as optional; spread largeValueFields("${name}")`;
    const issues = missing.map((path) => ({ path, message }));
    throw refused("invalid-definition", definition.name, issues);
  }
  return openable(definition.tables, (database) => new OpenValues(database, definition, options));
}

class OpenValues {
  readonly #database: Database;
  readonly #definition: AnyEntity;
  readonly #rows: EntityRepository;
  readonly #blobs: PointedBlobs;
  readonly #name: string;

  constructor(database: Database, definition: AnyEntity, options: LargeValueOptions<string>) {
    const { name, container } = options;
    const { rows, table, name: owner } = definition;
    this.#database = database;
    this.#definition = definition;
    this.#rows = new EntityRepository(database, definition);
    const property = rows.propertyOf(name);
    this.#blobs = new PointedBlobs(database, { container, table, property, owner, name });
    this.#name = name;
  }

  async put(key: KeyValues, body: Uint8Array, contentType?: string): Promise<void> {
    const blob = this.#blobs.newName(this.#definition.rows.key(key, this.#database.profile));
    const pointer = {
      [this.#name]: blob,
      [`${this.#name}_len`]: body.length,
      [`${this.#name}_sha256`]: await sha256(body),
      [`${this.#name}_type`]: contentType,
    };
    await this.#blobs.port.put(this.#blobs.container, blob, body, {
      ...(contentType && { contentType }),
    });
    let old: string | undefined;
    try {
      await this.#rows.update(key, (current) => {
        old = this.#blobOf(current);
        return pointer;
      });
    } catch (error) {
      // What may have been committed must stay; the rest nobody points to.
      const isOurs =
        isTableError(error, "not-found") || isTableError(error, "contention-exhausted");
      if (isOurs) await this.#blobs.delete(blob);
      throw error;
    }
    if (old !== blob) await this.#blobs.delete(old);
  }

  async get(key: KeyValues): Promise<LargeValue | undefined> {
    const value = await this.#read(key, () => undefined);
    if (!value) return undefined;
    const { body, contentType } = value.found;
    if ((await sha256(body)) !== value.row[`${this.#name}_sha256`]) throw this.#spoiled(value.blob);
    return { body, contentType };
  }

  async *stream(key: KeyValues): AsyncGenerator<Uint8Array> {
    const lengthOf = (row: Row) => Number(row[`${this.#name}_len`]);
    // Nothing of an empty blob can be asked for by range.
    const value = await this.#read(key, (row) => (lengthOf(row) > 0 ? rangeAt(0) : undefined));
    if (!value) return;
    const { blob, row } = value;
    let piece: BlobContent | undefined = value.found;
    for (let offset = 0; ; piece = await this.#blob(blob, rangeAt(offset))) {
      if (!piece) throw this.#gone(blob);
      const left = lengthOf(row) - offset;
      if (piece.length !== Math.min(left, PIECE_BYTES)) throw this.#spoiled(blob);
      if (left > 0) yield piece.body;
      offset += PIECE_BYTES;
      if (left <= PIECE_BYTES) return;
    }
  }

  /** The entity and its blob, or the range of it that the entity suggests. */
  async #read(key: KeyValues, rangeOf: (row: Row) => ByteRange | undefined) {
    let missed: string | undefined;
    for (;;) {
      const row = await this.#rows.get(key);
      const blob = row && this.#blobOf(row);
      if (!row || blob === undefined) return undefined;
      if (blob === missed) throw this.#gone(blob);
      const found = await this.#blob(blob, rangeOf(row));
      if (found) return { row, blob, found };
      // Replaced since the entity was read: the entity tells by what.
      missed = blob;
    }
  }

  /** @throws validation-failed for a range that the blob does not reach. */
  #blob(blob: string, range: ByteRange | undefined): Promise<BlobContent | undefined> {
    const request = this.#blobs.port.get(this.#blobs.container, blob, range);
    return request.catch((error) => {
      throw isRefusal(error, 416) ? this.#spoiled(blob) : error;
    });
  }

  #gone(blob: string): Error {
    const message = `The blob ${blob} is gone.`;
    return tableError("not-found", message, { table: this.#blobs.container, key: blob });
  }

  #spoiled(blob: string): Error {
    return validationFailed(`The blob ${blob}`, this.#name, "it is not what was put");
  }

  async remove(key: KeyValues): Promise<boolean> {
    let old: string | undefined;
    const nothing = Object.keys(largeValueFields(this.#name)).map((field) => [field, undefined]);
    try {
      await this.#rows.update(key, (current) => {
        old = this.#blobOf(current);
        return old === undefined ? undefined : Object.fromEntries(nothing);
      });
    } catch (error) {
      if (isTableError(error, "not-found")) return false;
      throw error;
    }
    await this.#blobs.delete(old);
    return old !== undefined;
  }

  async deleteEntity(key: KeyValues): Promise<boolean> {
    for (;;) {
      const row = await this.#rows.get(key);
      if (!row) return false;
      try {
        if (!(await this.#rows.deleteIfUnchanged(row))) return false;
      } catch (error) {
        if (isTableError(error, "conflict")) continue;
        throw error;
      }
      await this.#blobs.delete(this.#blobOf(row));
      return true;
    }
  }

  collect(olderThanMs?: number): Promise<number> {
    return this.#blobs.collect(olderThanMs);
  }

  #blobOf(row: Row): string | undefined {
    const blob = row[this.#name];
    return typeof blob === "string" ? blob : undefined;
  }
}

function rangeAt(offset: number): ByteRange {
  return { offset, count: PIECE_BYTES };
}

async function sha256(body: Uint8Array): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new Uint8Array(body)));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
