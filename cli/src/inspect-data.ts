import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { storedNames } from "@rowhouse/server/catalog/catalog";
import { KEY_SPACES } from "@rowhouse/server/catalog/key-spaces";
import type { Engine, Entry, KeyRange } from "@rowhouse/server/engine/engine";
import { decodeId, decodeText, partitionPrefixRange } from "@rowhouse/server/engine/key-codec";
import { type LmdbEngine, openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { tablePrefix } from "@rowhouse/server/table/table-keys";

/**
 * Opens a data folder to read it, beside a running server if there is one. A folder without data is
 * refused, not made. The caller closes it.
 */
export async function openDataFolder(location: string): Promise<LmdbEngine> {
  const path = resolve(location);
  if (!existsSync(join(path, "data.mdb"))) throw new Error(`${path} is not a data folder.`);
  return openLmdbEngine({ path });
}

export interface StoredTable {
  readonly account: string;
  readonly table: string;
  /** Where its entities are. */
  readonly range: KeyRange;
  /** What stands before each partition key. */
  readonly prefix: Uint8Array;
}

/** Every table, by account and name. */
export async function listStoredTables(engine: Engine): Promise<StoredTable[]> {
  const names = await storedNames(engine, KEY_SPACES.tableCatalog);
  return names.map(({ account, accountId, name, id }) => {
    const prefix = tablePrefix(accountId, id);
    return { account, table: name, range: partitionPrefixRange(prefix), prefix };
  });
}

const COUNTER_SORT = 0x01;

/** One line for an entry: what its key says, and how long its value is. */
export function describeEntry({ key, value, version }: Entry): string {
  const { partition, sort } = key;
  const facts = `${value.length} bytes  version ${version}`;
  switch (partition[0]) {
    case KEY_SPACES.accounts:
      return sort[0] === COUNTER_SORT
        ? `accounts  next id  ${text(value)}`
        : `accounts  ${decodeText(sort)}  id ${text(value)}`;
    case KEY_SPACES.tableCatalog:
      return `table catalog  account ${decodeId(partition, 1).id}  ${printable(sort)}  ${facts}`;
    case KEY_SPACES.entities: {
      const account = decodeId(partition, 1);
      const table = decodeId(partition, account.end);
      return `entity  account ${account.id} table ${table.id}  ${JSON.stringify(decodeText(partition, table.end))} / ${JSON.stringify(decodeText(sort))}  ${facts}`;
    }
    default: {
      const name = SPACE_NAMES.get(partition[0] ?? 0) ?? "unknown space";
      return `${name}  ${printable(partition.subarray(1))} / ${printable(sort)}  ${facts}`;
    }
  }
}

const SPACE_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(KEY_SPACES).map(([name, byte]) => [byte, name]),
);

/** Text where bytes are printable ASCII, `\xNN` for the others. */
function printable(bytes: Uint8Array): string {
  let out = "";
  for (const byte of bytes) {
    const isPlain = byte >= 0x20 && byte < 0x7f && byte !== 0x5c;
    out += isPlain ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`;
  }
  return out;
}

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("utf8");
}
