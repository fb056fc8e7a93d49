import type { Entry, Key } from "../engine.ts";
import type { PointRead, PointReads } from "./point-reads.ts";
import type { RowReader } from "./row-reader.ts";
import type { Session } from "./session.ts";
import { GET_ACROSS, GET_MANY, GET_ONE } from "./statements.ts";
import { TYPE } from "./wire-writer.ts";

type Entries = (Entry | undefined)[];

/** Rows with this version are the engine's own, see `schema.ts`; nobody else sees them. */
export const OWN_ROW_VERSION = 0;

/** Reads one key. */
export class GetOne implements PointRead {
  readonly deadline: number;
  readonly #key: Key;
  readonly #resolve: (entries: Entries) => void;
  readonly reject: (error: Error) => void;
  #entry: Entry | undefined;

  constructor(
    key: Key,
    deadline: number,
    resolve: (entries: Entries) => void,
    reject: (error: Error) => void,
  ) {
    this.#key = key;
    this.deadline = deadline;
    this.#resolve = resolve;
    this.reject = reject;
  }

  send(session: Session): void {
    const writer = session.bind(GET_ONE);
    writer.bytes(this.#key.partition);
    writer.bytes(this.#key.sort);
    session.execute();
  }

  row(row: RowReader): void {
    const version = row.int8();
    if (version === OWN_ROW_VERSION) return;
    this.#entry = { key: this.#key, value: copied(row.bytes()), version };
  }

  restart(): void {
    this.#entry = undefined;
  }

  resolve(): void {
    this.#resolve([this.#entry]);
  }
}

/** Reads many keys by one statement, of one partition or across. */
export class GetMany implements PointRead {
  readonly deadline: number;
  readonly #keys: readonly Key[];
  readonly #isAcross: boolean;
  readonly #found = new Map<string, { value: Uint8Array; version: number }>();
  readonly #resolve: (entries: Entries) => void;
  readonly reject: (error: Error) => void;

  constructor(
    keys: readonly Key[],
    isAcross: boolean,
    deadline: number,
    resolve: (entries: Entries) => void,
    reject: (error: Error) => void,
  ) {
    this.#keys = keys;
    this.#isAcross = isAcross;
    this.deadline = deadline;
    this.#resolve = resolve;
    this.reject = reject;
  }

  send(session: Session): void {
    const writer = session.bind(this.#isAcross ? GET_ACROSS : GET_MANY);
    const keys = this.#keys;
    let partitionBytes = 0;
    let sortBytes = 0;
    for (const { partition, sort } of keys) {
      partitionBytes += partition.length;
      sortBytes += sort.length;
    }
    if (this.#isAcross) {
      writer.beginArray(TYPE.bytea, keys.length, partitionBytes);
      for (const { partition } of keys) writer.bytes(partition);
    } else {
      writer.bytes(keys[0]!.partition);
    }
    writer.beginArray(TYPE.bytea, keys.length, sortBytes);
    for (const { sort } of keys) writer.bytes(sort);
    session.execute();
  }

  row(row: RowReader): void {
    const id = this.#isAcross ? identify(row.bytes(), row.bytes()) : latin1(row.bytes());
    const version = row.int8();
    if (version !== OWN_ROW_VERSION) this.#found.set(id, { value: copied(row.bytes()), version });
  }

  restart(): void {
    this.#found.clear();
  }

  resolve(): void {
    const isAcross = this.#isAcross;
    this.#resolve(
      this.#keys.map((key) => {
        const id = isAcross ? identify(key.partition, key.sort) : latin1(key.sort);
        const found = this.#found.get(id);
        return found && { key, value: found.value, version: found.version };
      }),
    );
  }
}

/** A string that no other pair has; one character a byte. */
export function identify(partition: Uint8Array, sort: Uint8Array): string {
  return `${partition.length}:${latin1(partition)}${latin1(sort)}`;
}

export function latin1(bytes: Uint8Array): string {
  return toBuffer(bytes).toString("latin1");
}

export function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes)
    ? bytes
    : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** An answer of its own: a view would keep the whole chunk of the socket alive, 64 KiB. */
function copied(bytes: Buffer): Uint8Array {
  return Buffer.from(bytes);
}

/** Splits keys by partition for servers whose shards answer by themselves: one statement each. */
export function getEachPartition(
  reads: PointReads,
  keys: readonly Key[],
  deadline: number,
): Promise<Entries> {
  const groups = new Map<string, number[]>();
  for (const [index, { partition }] of keys.entries()) {
    const id = latin1(partition);
    const group = groups.get(id);
    if (group) group.push(index);
    else groups.set(id, [index]);
  }
  const entries: Entries = new Array(keys.length).fill(undefined);
  const parts = [...groups.values()].map(async (indexes) => {
    const part = await new Promise<Entries>((resolve, reject) => {
      const own = indexes.map((index) => keys[index]!);
      reads.submit(new GetMany(own, false, deadline, resolve, reject));
    });
    for (const [at, index] of indexes.entries()) entries[index] = part[at];
  });
  return Promise.all(parts).then(() => entries);
}
