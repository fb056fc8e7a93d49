import { createHash } from "node:crypto";
import type { EntityDefinition, Infer } from "./entities/entity.ts";
import { EntityRepository, type KeyOf } from "./entities/repository.ts";
import { isTableError, refused, tableError, validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import { padded } from "./keys/number.ts";
import { PointedBlobs } from "./large/pointed-blobs.ts";
import type { Fields, Row } from "./model/entity-rows.ts";
import { type Field, f } from "./model/field.ts";
import type { AnyEntity, Indexes } from "./model/follower.ts";
import { type Openable, openable } from "./model/openable.ts";
import { assertNames } from "./model/storage-name.ts";
import type { ByteRange } from "./ports/blobs.ts";
import { isRefusal } from "./ports/port-error.ts";
import type { EntityKey } from "./ports/tables.ts";
import type { Session } from "./store/session.ts";

/** The properties of an entity that point to a large value: its blob's name, length, hash and type. */
export type LargeValueFields<Name extends string> = {
  readonly [P in Name | `${Name}_sha256` | `${Name}_type`]: Field<string, true>;
} & { readonly [P in `${Name}_len`]: Field<number, true> };

/** Spread them among the fields of an entity. */
export function largeValueFields<const Name extends string>(name: Name): LargeValueFields<Name> {
  const text = f.string().optional();
  const fields = {
    [name]: text,
    [`${name}_sha256`]: text,
    [`${name}_type`]: text,
    [`${name}_len`]: f.int32().optional(),
  };
  // The names computed here are those that the type computes from `name`.
  return fields as unknown as LargeValueFields<Name>;
}

/** Adds a field for values of up to 48 KiB, which are then stored in the entity and need no blob. */
export type InlineValueFields<Name extends string> = LargeValueFields<Name> & {
  readonly [P in `${Name}_inline`]: Field<Uint8Array, true>;
};

/** Spread them among the fields of an entity instead of `largeValueFields`. */
export function inlineValueFields<const Name extends string>(name: Name): InlineValueFields<Name> {
  const inline = { [inlineOf(name)]: f.bytes().optional() };
  // As above.
  return { ...largeValueFields(name), ...inline } as unknown as InlineValueFields<Name>;
}

function inlineOf(name: string): string {
  return `${name}_inline`;
}

export interface LargeValueOptions<Name> {
  /** The name passed to `largeValueFields`. */
  readonly name: Name;
  /** A container used only for the values of this entity and name. */
  readonly container: string;
}

export interface LargeValues<Key> {
  /**
   * Uploads the value, then points the entity to it, then deletes the previous value. A stream is never held
   * whole: it is sent in blocks of 4 MiB, and no reader sees any of it before its end; if it fails, the blocks
   * are dropped. 3 R, 1 more to replace a value, and for a stream of 4 MiB or more 1 for each 4 MiB; 2 R
   * inline.
   * @throws not-found; validation-failed for a stream of 2 GiB or more; key-too-long for keys that do not fit
   * in a blob's name.
   */
  put(key: Key, body: Uint8Array | AsyncIterable<Uint8Array>, contentType?: string): Promise<void>;
  /** 2 R, 1 R inline. @throws not-found when the blob is gone, validation-failed for other content than was put. */
  get(key: Key): Promise<LargeValue | undefined>;
  /**
   * Yields the value piece by piece and never holds it whole; yields nothing when there is none. 1 R, and 1 for
   * each piece of 4 MiB.
   * @throws not-found when the value was replaced or deleted in the meantime: start again; validation-failed,
   * at its end, when its content is not what was put.
   */
  stream(key: Key): AsyncIterable<Uint8Array>;
  /** 3 R. False when there is no entity or no value. */
  remove(key: Key): Promise<boolean>;
  /** Deletes the entity, then its value. False when there is no entity. 3 R. */
  deleteEntity(key: Key): Promise<boolean>;
  /**
   * Deletes the blobs that crashes left: those that no entity points to and that are older than `olderThanMs`
   * (default: a day). Within an hour, plus the difference between clocks, an entity may still come to point to
   * one. A read for each blob. @returns how many.
   */
  collect(olderThanMs?: number): Promise<number>;
}

export interface LargeValue {
  readonly body: Uint8Array;
  readonly contentType: string | undefined;
}

const PIECE_BYTES = 4 * 1024 * 1024;
const INLINE_BYTES_MAX = 48 * 1024;
/** The length is an Int32. */
const BYTES_MAX = 2 ** 31 - 1;

/** Values too large for an entity, in immutable blobs: a new value is a new blob. */
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
    const message = `is not an optional field; spread largeValueFields("${name}")`;
    const issues = missing.map((path) => ({ path, message }));
    throw refused("invalid-definition", definition.name, issues);
  }
  assertNames(definition.name, { container: options.container });
  return openable(definition.tables, (session) => new OpenValues(session, definition, options), {
    queues: definition.queues,
    containers: [...definition.containers, options.container],
  });
}

/** A blob made from a stream, and the latest time at which the entity may begin to name it. */
interface Sent {
  readonly blob: string;
  readonly commitByMs: number;
  readonly length: number;
  readonly sha256: string;
}

class OpenValues {
  readonly #session: Session;
  readonly #definition: AnyEntity;
  readonly #rows: EntityRepository;
  readonly #blobs: PointedBlobs;
  readonly #name: string;
  readonly #mayInline: boolean;

  constructor(session: Session, definition: AnyEntity, options: LargeValueOptions<string>) {
    const { name, container } = options;
    const { rows, table, name: owner } = definition;
    this.#session = session;
    this.#definition = definition;
    this.#rows = new EntityRepository(session, definition);
    const property = rows.propertyOf(name);
    this.#blobs = new PointedBlobs(session, { container, table, property, owner, name });
    this.#name = name;
    this.#mayInline = inlineOf(name) in rows.fields;
  }

  async put(
    key: KeyValues,
    body: Uint8Array | AsyncIterable<Uint8Array>,
    contentType?: string,
  ): Promise<void> {
    const { container, port } = this.#blobs;
    const owner = this.#definition.rows.key(key, this.#session.profile);
    if (!(body instanceof Uint8Array) && !Object(body)[Symbol.asyncIterator]) {
      throw validationFailed("The value", this.#name, "bytes or a stream of bytes is expected");
    }
    const options = contentType ? { contentType } : {};
    const sent = body instanceof Uint8Array ? body : await this.#send(owner, body, options);
    const whole = sent instanceof Uint8Array && sent;
    const isInline = whole && this.#mayInline && whole.length <= INLINE_BYTES_MAX;
    let blob: string | undefined;
    let commitByMs: number | undefined;
    if (!whole) ({ blob, commitByMs } = sent);
    else if (!isInline) {
      blob = this.#blobs.newName(owner);
      commitByMs = this.#blobs.commitByMs;
      await port.put(container, blob, whole, options);
    }
    const content = {
      [this.#name]: blob,
      [`${this.#name}_len`]: sent.length,
      [`${this.#name}_sha256`]: sent instanceof Uint8Array ? sha256(sent) : sent.sha256,
      [`${this.#name}_type`]: contentType,
      ...(this.#mayInline && { [inlineOf(this.#name)]: isInline ? whole : undefined }),
    };
    let old: string | undefined;
    let attempts = 0;
    try {
      const change = (current: Row) => {
        attempts++;
        // No further attempt could commit. The value must be sent again, as a blob too young to be collected.
        if (commitByMs !== undefined && commitByMs < this.#session.clock.now()) {
          const message = `The value of ${owner.rowKey} was sent more than an hour ago, too long to be named now.`;
          const payload = { key: owner.rowKey, attempts };
          throw tableError("contention-exhausted", message, payload, { remedy: "put it again." });
        }
        old = this.#blobOf(current);
        return content;
      };
      await this.#rows.update(key, change, {}, { commitByMs });
    } catch (error) {
      // A blob whose commit may have succeeded must stay; otherwise no entity points to it.
      const isOurs =
        isTableError(error, "not-found") || isTableError(error, "contention-exhausted");
      if (isOurs) await this.#blobs.delete(blob);
      throw error;
    }
    if (old !== blob) await this.#blobs.delete(old);
  }

  /**
   * Stores a stream as a blob, block by block. A stream that ends within the first block is returned whole
   * instead.
   */
  async #send(
    owner: EntityKey,
    source: AsyncIterable<Uint8Array>,
    options: { readonly contentType?: string },
  ): Promise<Uint8Array | Sent> {
    const { container, port } = this.#blobs;
    const hash = createHash("sha256");
    const blocks: string[] = [];
    let blob = "";
    let length = 0;
    try {
      for await (const piece of inPieces(source)) {
        if (length === 0 && piece.length < PIECE_BYTES) return piece;
        blob ||= this.#blobs.newName(owner);
        if (piece.length === 0) break;
        length += piece.length;
        if (length > BYTES_MAX) {
          throw validationFailed("The value", this.#name, `it has more than ${BYTES_MAX} bytes`);
        }
        hash.update(piece);
        const id = btoa(padded(blocks.length, 6));
        await port.stageBlock(container, blob, id, piece);
        blocks.push(id);
      }
      const { commitByMs } = this.#blobs;
      await port.commitBlocks(container, blob, blocks, options);
      return { blob, commitByMs, length, sha256: hash.digest("hex") };
    } catch (error) {
      // Writing the blob drops its uncommitted blocks. If that fails too, the service drops them after a week.
      const drop = async () => {
        await port.put(container, blob, new Uint8Array());
        await this.#blobs.delete(blob);
      };
      if (length > 0) await drop().catch(() => undefined);
      throw error;
    }
  }

  async get(key: KeyValues): Promise<LargeValue | undefined> {
    const value = await this.#read(key, () => undefined);
    if (!value) return undefined;
    const { body, contentType } = value.found;
    if (sha256(body) !== value.row[`${this.#name}_sha256`]) throw this.#spoiled(value.blob);
    return { body, contentType };
  }

  async *stream(key: KeyValues): AsyncGenerator<Uint8Array> {
    const lengthOf = (row: Row) => Number(row[`${this.#name}_len`]);
    // An empty blob has no range to request.
    const value = await this.#read(key, (row) => (lengthOf(row) > 0 ? rangeAt(0) : undefined));
    if (!value) return;
    const { blob, row } = value;
    const hash = createHash("sha256");
    let piece: LargeValue | undefined = value.found;
    for (let offset = 0; ; piece = await this.#blob(blob, rangeAt(offset))) {
      if (!piece) throw this.#gone(blob);
      const left = lengthOf(row) - offset;
      if (piece.body.length !== Math.min(left, PIECE_BYTES)) throw this.#spoiled(blob);
      hash.update(piece.body);
      const isLast = left <= PIECE_BYTES;
      if (isLast && hash.digest("hex") !== row[`${this.#name}_sha256`]) throw this.#spoiled(blob);
      if (left > 0) yield piece.body;
      if (isLast) return;
      offset += PIECE_BYTES;
    }
  }

  /** The entity and its value, or the part of its blob that `rangeOf` selects. */
  async #read(
    key: KeyValues,
    rangeOf: (row: Row) => ByteRange | undefined,
  ): Promise<{ row: Row; blob: string; found: LargeValue } | undefined> {
    let missed: string | undefined;
    for (;;) {
      const row = await this.#rows.get(key);
      const body = row?.[inlineOf(this.#name)];
      if (row && body instanceof Uint8Array) {
        const contentType = row[`${this.#name}_type`] as string | undefined;
        return { row, blob: inlineOf(this.#name), found: { body, contentType } };
      }
      const blob = row && this.#blobOf(row);
      if (!row || blob === undefined) return undefined;
      if (blob === missed) throw this.#gone(blob);
      const found = await this.#blob(blob, rangeOf(row));
      if (found) return { row, blob, found };
      // Replaced since the entity was read: the entity now names another blob.
      missed = blob;
    }
  }

  /** @throws validation-failed for a range that the blob does not reach. */
  async #blob(blob: string, range: ByteRange | undefined): Promise<LargeValue | undefined> {
    try {
      const found = await this.#blobs.port.get(this.#blobs.container, blob, range);
      return found && { body: found.body, contentType: found.contentType };
    } catch (error) {
      throw isRefusal(error, 416) ? this.#spoiled(blob) : error;
    }
  }

  #gone(blob: string): Error {
    const message = `The blob ${blob} is gone.`;
    return tableError("not-found", message, { table: this.#blobs.container, key: blob });
  }

  #spoiled(blob: string): Error {
    return validationFailed(`The blob ${blob}`, this.#name, "it is not the stored value");
  }

  async remove(key: KeyValues): Promise<boolean> {
    const fields = Object.keys(
      (this.#mayInline ? inlineValueFields : largeValueFields)(this.#name),
    );
    const nothing = Object.fromEntries(fields.map((field) => [field, undefined]));
    let old: string | undefined;
    let isThere = false;
    try {
      await this.#rows.update(key, (current) => {
        old = this.#blobOf(current);
        isThere = fields.some((field) => current[field] !== undefined);
        return isThere ? nothing : undefined;
      });
    } catch (error) {
      if (isTableError(error, "not-found")) return false;
      throw error;
    }
    await this.#blobs.delete(old);
    return isThere;
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

/** The same bytes in pieces of equal length; the last is shorter, or empty. */
async function* inPieces(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let piece = new Uint8Array(PIECE_BYTES);
  let length = 0;
  for await (const chunk of source) {
    for (let rest = chunk; rest.length > 0; ) {
      const part = rest.subarray(0, PIECE_BYTES - length);
      piece.set(part, length);
      length += part.length;
      rest = rest.subarray(part.length);
      if (length < PIECE_BYTES) continue;
      yield piece;
      piece = new Uint8Array(PIECE_BYTES);
      length = 0;
    }
  }
  yield piece.subarray(0, length);
}

/** Synchronous: copying the bytes for another thread costs as much, and no request could start meanwhile. */
function sha256(body: Uint8Array): string {
  return createHash("sha256").update(body).digest("hex");
}
