import { crc32 } from "node:zlib";
import { EngineError } from "../engine.ts";
import { type ReadOptions, type Store, viewOf } from "./binding.ts";
import type { CommitNumbers } from "./commit-numbers.ts";

/**
 * The engine's own record in the environment, in front of all entries: the format of the entries, and the
 * limit up to which versions may have been issued. `docs/internals/storage-format.md` draws it.
 */
export interface MetaRecord {
  readonly format: number;
  /** No process has ever written a version above it. */
  readonly versionsReserved: number;
  /** Whether values may lack their checksum: the environment was begun in format 1 and is not sealed yet. */
  readonly lacksChecksums: boolean;
}

/** The format this release writes. */
export const FORMAT = 2;

/**
 * Converts the format under which it is registered into the next one, inside the transaction that opens the store.
 */
type Migration = (store: Store, meta: MetaRecord) => MetaRecord;

const MIGRATIONS: ReadonlyMap<number, Migration> = new Map<number, Migration>([
  // Values get their checksum when they are next written, or from the scrub.
  [1, (_, meta) => ({ ...meta, format: 2, lacksChecksums: true })],
]);

// Flat keys never begin with 00 00, so no entry precedes it.
const META_KEY = Uint8Array.of(0, 0, ...Buffer.from("meta"));
const MAGIC = Buffer.from("ROWHOUSE");
const FORMAT_AT = 8;
const FLAGS_AT = 10;
const FLAG_LACKS_CHECKSUMS = 1;
const CHECKSUM_AT = 12;
const VERSIONS_AT = 16;
const RECORD_BYTES = 24;

/** Reads the record, or writes the first one, and migrates an older format. */
export function openMeta(store: Store, commits: CommitNumbers): MetaRecord {
  for (;;) {
    const opened = store.transactionSync(() => {
      commits.settle();
      return commits.isFollowedBy(store.getWriteTxnId()) ? openNewest(store) : undefined;
    });
    if (opened) return opened;
  }
}

function openNewest(store: Store): MetaRecord {
  const found = readMeta(store);
  if (found === undefined) {
    assertEmpty(store);
    const first = { format: FORMAT, versionsReserved: 0, lacksChecksums: false };
    writeMeta(store, first);
    return first;
  }
  if (found.format === FORMAT) return found;
  const current = migrate(store, found);
  writeMeta(store, current);
  return current;
}

/** Undefined in a new store. Without `options` it reads inside the open write transaction. */
export function readMeta(store: Store, options?: ReadOptions): MetaRecord | undefined {
  const shared = store.getBinaryFast(META_KEY, options);
  if (shared === undefined) return undefined;
  const bytes = Buffer.from(viewOf(shared));
  const format = bytes.length < RECORD_BYTES ? 0 : bytes.readUInt16BE(FORMAT_AT);
  const isMarked = bytes.subarray(0, MAGIC.length).equals(MAGIC);
  if (!isMarked || format === 0 || !hasIntactChecksum(bytes, format)) {
    throw new EngineError(
      "Corrupt",
      "The record of the storage format is damaged. Restore the data from a backup.",
    );
  }
  return {
    format,
    versionsReserved: Number(bytes.readBigUInt64BE(VERSIONS_AT)),
    lacksChecksums: (bytes[FLAGS_AT]! & FLAG_LACKS_CHECKSUMS) !== 0,
  };
}

/** Where a newer format has it is unknown. Format 1 has zeros there. */
function hasIntactChecksum(bytes: Buffer, format: number): boolean {
  if (format > FORMAT) return true;
  return bytes.readUInt32BE(CHECKSUM_AT) === (format === 1 ? 0 : checksumOf(bytes));
}

function checksumOf(bytes: Buffer): number {
  return crc32(bytes.subarray(VERSIONS_AT), crc32(bytes.subarray(0, CHECKSUM_AT)));
}

export function writeMeta(store: Store, meta: MetaRecord): void {
  const bytes = Buffer.alloc(RECORD_BYTES);
  MAGIC.copy(bytes);
  bytes.writeUInt16BE(meta.format, FORMAT_AT);
  bytes[FLAGS_AT] = meta.lacksChecksums ? FLAG_LACKS_CHECKSUMS : 0;
  bytes.writeBigUInt64BE(BigInt(meta.versionsReserved), VERSIONS_AT);
  bytes.writeUInt32BE(checksumOf(bytes), CHECKSUM_AT);
  store.put(META_KEY, bytes, 0);
}

function migrate(store: Store, from: MetaRecord): MetaRecord {
  let current = from;
  while (current.format !== FORMAT) {
    const migration = MIGRATIONS.get(current.format);
    if (migration === undefined) {
      throw new EngineError(
        "Unavailable",
        `The data has storage format ${from.format}, which this release cannot read; its own is ${FORMAT}. ` +
          "Use the release that wrote it, or a newer one.",
      );
    }
    current = migration(store, current);
  }
  return current;
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
