import { EngineError } from "../engine.ts";
import { type ReadOptions, type Store, viewOf } from "./binding.ts";

/**
 * The engine's own record in the environment, in front of all entries: the format of the entries, and the
 * limit up to which versions may have been issued. `docs/internals/storage-format.md` draws it.
 */
export interface MetaRecord {
  readonly format: number;
  /** No process has ever written a version above it. */
  readonly versionsReserved: number;
}

/** The format this release writes. */
export const FORMAT = 1;

/**
 * Converts the format under which it is registered into the next one, inside the transaction that opens the store.
 */
type Migration = (store: Store) => void;

/** Empty as long as there is only one format. */
const MIGRATIONS: ReadonlyMap<number, Migration> = new Map();

// Flat keys never begin with 00 00, so no entry precedes it.
const META_KEY = Uint8Array.of(0, 0, ...Buffer.from("meta"));
const MAGIC = Buffer.from("ROWHOUSE");
const FORMAT_AT = 8;
const VERSIONS_AT = 16;
const RECORD_BYTES = 24;

/** Reads the record, or writes the first one, and migrates an older format. */
export function openMeta(store: Store): MetaRecord {
  return store.transactionSync(() => {
    const found = readMeta(store);
    if (found === undefined) {
      assertEmpty(store);
      const first = { format: FORMAT, versionsReserved: 0 };
      writeMeta(store, first);
      return first;
    }
    if (found.format === FORMAT) return found;
    migrate(store, found.format);
    const current = { ...found, format: FORMAT };
    writeMeta(store, current);
    return current;
  });
}

/** Undefined in a new store. Without `options` it reads inside the open write transaction. */
export function readMeta(store: Store, options?: ReadOptions): MetaRecord | undefined {
  const shared = store.getBinaryFast(META_KEY, options);
  if (shared === undefined) return undefined;
  const bytes = Buffer.from(viewOf(shared));
  if (bytes.length < RECORD_BYTES || !bytes.subarray(0, MAGIC.length).equals(MAGIC)) {
    throw new EngineError(
      "Corrupt",
      "The record of the storage format is damaged. Restore the data from a backup.",
    );
  }
  return {
    format: bytes.readUInt16BE(FORMAT_AT),
    versionsReserved: Number(bytes.readBigUInt64BE(VERSIONS_AT)),
  };
}

export function writeMeta(store: Store, { format, versionsReserved }: MetaRecord): void {
  const bytes = Buffer.alloc(RECORD_BYTES);
  MAGIC.copy(bytes);
  bytes.writeUInt16BE(format, FORMAT_AT);
  bytes.writeBigUInt64BE(BigInt(versionsReserved), VERSIONS_AT);
  store.put(META_KEY, bytes, 0);
}

function migrate(store: Store, from: number): void {
  for (let format = from; format !== FORMAT; format++) {
    const migration = MIGRATIONS.get(format);
    if (migration === undefined) {
      throw new EngineError(
        "Unavailable",
        `The data has storage format ${from}, which this release cannot read; its own is ${FORMAT}. ` +
          "Use the release that wrote it, or a newer one.",
      );
    }
    migration(store);
  }
}

/** Another program's LMDB environment must not be mixed with ours. */
function assertEmpty(store: Store): void {
  for (const _ of store.getRange({ start: Uint8Array.of(0) })) {
    throw new EngineError(
      "Unavailable",
      "The folder contains an LMDB database of another program. Choose another folder.",
    );
  }
}
