import { latin1 } from "../../byte-views.ts";
import type { Entry, Key } from "../engine.ts";
import { equalBytes } from "../key-codec.ts";
import { isOnEveryNode, readOver } from "./placement.ts";
import type { PointRead, PointReads } from "./point-reads.ts";
import type { RowReader } from "./row-reader.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import {
  GET_ACROSS,
  GET_ACROSS_WITHIN,
  GET_FIRST,
  GET_MANY,
  GET_MANY_WITHIN,
  GET_ONE,
  GET_PAIR,
  GET_SECOND,
  type Statement,
} from "./statements.ts";

type Entries = (Entry | undefined)[];

/** Rows with this version are the engine's own, see `schema.ts`; no read returns them. */
export const OWN_ROW_VERSION = 0;

/** How many more bytes of values a read may hold; shared by the statements it consists of. */
export interface Room {
  bytes: number;
}

/** The caller that waits for the entries, and how long. */
export interface Reader {
  readonly deadline: number;
  /** The entries end at the first one without room; two keys always have room. */
  readonly room: Room;
  readonly resolve: (entries: Entries) => void;
  readonly reject: (error: Error) => void;
}

/**
 * The read of these keys, of which there must be at least one, as one statement, hence in one snapshot. On a
 * cluster they must be of one partition, or two of which every node holds the first, a name: `isOneRead`. The name is
 * then read behind the other: if it is the one that was known before, the other is what it had at that moment.
 */
export function pointRead(keys: readonly Key[], dialect: Dialect, reader: Reader): PointRead {
  const { partition } = keys[0]!;
  const isAcross = keys.some((key) => !equalBytes(key.partition, partition));
  const isBounded = Number.isFinite(reader.room.bytes);
  const options = { dialect, reader };
  if (keys.length <= 2) {
    const isMixed = isAcross && isOnEveryNode(partition, dialect);
    return isMixed ? new GetBehindName(keys, options) : new GetFew(keys, options);
  }
  if (!isAcross) return readOfPartition(keys, options);
  return new GetMany(keys, isBounded ? GET_ACROSS_WITHIN : GET_ACROSS, options);
}

function readOfPartition(keys: readonly Key[], options: GetOptions): PointRead {
  const isBounded = Number.isFinite(options.reader.room.bytes);
  return new GetMany(keys, isBounded ? GET_MANY_WITHIN : GET_MANY, options);
}

/** Whether one statement can read these keys in one place. */
export function isOneRead(keys: readonly Key[], dialect: Dialect): boolean {
  const [first, second] = keys;
  if (dialect === "postgres" || !first || !second) return true;
  if (keys.length === 2 && isOnEveryNode(first.partition, dialect)) {
    const isPair = !isOnEveryNode(second.partition, dialect);
    return isPair || equalBytes(first.partition, second.partition);
  }
  return keys.every(({ partition }) => equalBytes(partition, first.partition));
}

interface GetOptions {
  readonly dialect: Dialect;
  readonly reader: Reader;
}

abstract class Get implements PointRead {
  readonly deadline: number;
  readonly statementCount: number = 1;
  failures = 0;
  protected readonly keys: readonly Key[];
  protected readonly dialect: Dialect;
  readonly #reader: Reader;

  constructor(keys: readonly Key[], { dialect, reader }: GetOptions) {
    this.keys = keys;
    this.dialect = dialect;
    this.deadline = reader.deadline;
    this.#reader = reader;
  }

  abstract send(session: Session): void;
  abstract row(row: RowReader): void;
  abstract restart(): void;
  protected abstract entries(): Entries;

  resolve(): void {
    this.#reader.resolve(this.entries());
  }

  reject(error: Error): void {
    this.#reader.reject(error);
  }
}

/** One key or two, as nearly every request needs. */
class GetFew extends Get {
  #entries: Entries;

  constructor(keys: readonly Key[], options: GetOptions) {
    super(keys, options);
    this.#entries = this.#nothing();
  }

  override send(session: Session): void {
    this.ask(session, this.keys.length === 1 ? GET_ONE : GET_PAIR, this.keys);
  }

  protected ask(session: Session, statement: Statement, keys: readonly Key[]): void {
    const writer = session.bind(readOver(session, keys[0]!.partition, statement, this.dialect));
    for (const { partition, sort } of keys) {
      writer.bytes(partition);
      writer.bytes(sort);
    }
    session.execute();
  }

  override row(row: RowReader): void {
    const index = this.keys.length === 1 ? 0 : row.int8();
    const version = row.int8();
    if (version === OWN_ROW_VERSION) return;
    this.#entries[index] = { key: this.keys[index]!, value: copied(row.bytes()), version };
  }

  override restart(): void {
    this.#entries = this.#nothing();
  }

  protected override entries(): Entries {
    return this.#entries;
  }

  #nothing(): Entries {
    return this.keys.length === 1 ? [undefined] : [undefined, undefined];
  }
}

/** A name and another key, of which the name is as it was at the later moment. */
class GetBehindName extends GetFew {
  override readonly statementCount = 2;

  override send(session: Session): void {
    const [name, other] = this.keys;
    this.ask(session, GET_SECOND, [other!]);
    this.ask(session, GET_FIRST, [name!]);
  }
}

class GetMany extends Get {
  readonly #statement: Statement;
  readonly #isAcross: boolean;
  readonly #isBounded: boolean;
  readonly #room: Room;
  /** Undefined for a row without room. */
  readonly #found = new Map<string, { value: Uint8Array; version: number } | undefined>();

  constructor(keys: readonly Key[], statement: Statement, options: GetOptions) {
    super(keys, options);
    const { reader } = options;
    this.#room = reader.room;
    this.#statement = statement;
    this.#isAcross = statement === GET_ACROSS || statement === GET_ACROSS_WITHIN;
    this.#isBounded = Number.isFinite(reader.room.bytes);
  }

  override send(session: Session): void {
    const { keys, dialect } = this;
    const writer = session.bind(readOver(session, keys[0]!.partition, this.#statement, dialect));
    if (this.#isAcross) writer.bytesArray(keys.map(({ partition }) => partition));
    else writer.bytes(keys[0]!.partition);
    writer.bytesArray(keys.map(({ sort }) => sort));
    if (this.#isBounded) writer.int8(this.#room.bytes);
    session.execute();
  }

  override row(row: RowReader): void {
    const id = this.#isAcross ? identify(row.bytes(), row.bytes()) : latin1(row.bytes());
    const version = row.int8();
    if (version === OWN_ROW_VERSION) return;
    if (row.fieldBytes() < 0 || this.#room.bytes <= 0) {
      this.#found.set(id, undefined);
      return;
    }
    const value = copied(row.bytes());
    this.#room.bytes -= value.length;
    this.#found.set(id, { value, version });
  }

  override restart(): void {
    for (const found of this.#found.values()) this.#room.bytes += found?.value.length ?? 0;
    this.#found.clear();
  }

  protected override entries(): Entries {
    const entries: Entries = [];
    for (const key of this.keys) {
      const id = this.#isAcross ? identify(key.partition, key.sort) : latin1(key.sort);
      const found = this.#found.get(id);
      if (found === undefined && this.#found.has(id)) break;
      entries.push(found && { key, value: found.value, version: found.version });
    }
    return entries;
  }
}

/** A string that no other pair has; one character per byte. */
export function identify(partition: Uint8Array, sort: Uint8Array): string {
  return `${partition.length}:${latin1(partition)}${latin1(sort)}`;
}

/** A copy: a view would keep the whole chunk of the socket alive, 64 KiB. */
function copied(bytes: Buffer): Uint8Array {
  return Buffer.from(bytes);
}

/** Splits keys by partition, for a cluster, whose shards answer separately: one statement each. */
export function getEachPartition(
  reads: PointReads,
  keys: readonly Key[],
  { deadline, dialect, room }: Pick<Reader, "deadline" | "room"> & { readonly dialect: Dialect },
): Promise<Entries> {
  const groups = new Map<string, number[]>();
  for (const [index, { partition }] of keys.entries()) {
    const id = latin1(partition);
    const group = groups.get(id);
    if (group) group.push(index);
    else groups.set(id, [index]);
  }
  const entries: Entries = new Array(keys.length).fill(undefined);
  let end = keys.length;
  const parts = [...groups.values()].map(async (indexes) => {
    const part = await new Promise<Entries>((resolve, reject) => {
      const own = indexes.map((index) => keys[index]!);
      const reader = { deadline, room, resolve, reject };
      // A read of few keys does not watch the room, which is that of all partitions together.
      const isBounded = Number.isFinite(room.bytes);
      reads.submit(
        isBounded ? readOfPartition(own, { dialect, reader }) : pointRead(own, dialect, reader),
      );
    });
    for (const [at, entry] of part.entries()) entries[indexes[at]!] = entry;
    end = Math.min(end, indexes[part.length] ?? end);
  });
  return Promise.all(parts).then(() => entries.slice(0, end));
}
