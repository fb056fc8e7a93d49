import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { storedNames } from "@rowhouse/server/catalog/catalog";
import { KEY_SPACES } from "@rowhouse/server/catalog/key-spaces";
import type { Engine, Entry, KeyRange } from "@rowhouse/server/engine/engine";
import { decodeId, decodeText, partitionPrefixRange } from "@rowhouse/server/engine/key-codec";
import { type LmdbEngine, openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { printable } from "@rowhouse/server/stored-key";
import { RecordView } from "@rowhouse/server/table/record-view";
import { tablePrefix } from "@rowhouse/server/table/table-keys";

/**
 * Opens a data folder for reading, even while a server uses it. Refuses a folder without data instead of
 * creating it. The caller closes the engine.
 */
export async function openDataFolder(location: string): Promise<LmdbEngine> {
  const path = resolve(location);
  if (!existsSync(join(path, "data.mdb")))
    throw new Error(`${path} is not a data folder: it contains no data.mdb.`);
  return openLmdbEngine({ path });
}

export interface StoredTable {
  readonly account: string;
  readonly table: string;
  /** The keys of its entities. */
  readonly range: KeyRange;
  /** The bytes before each partition key. */
  readonly prefix: Uint8Array;
}

/** Every table, in the order of accounts and names. */
export async function listStoredTables(engine: Engine): Promise<StoredTable[]> {
  const names = await storedNames(engine, KEY_SPACES.tableCatalog);
  return names.map(({ account, accountId, name, id }) => {
    const prefix = tablePrefix(accountId, id);
    return { account, table: name, range: partitionPrefixRange(prefix), prefix };
  });
}

const COUNTER_SORT = 0x01;

/** One line per entry: its decoded key, and what an entity holds or how long another value is. */
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
      return `entity  account ${account.id} table ${table.id}  ${JSON.stringify(decodeText(partition, table.end))} / ${JSON.stringify(decodeText(sort))}  ${propertiesOf(value)}  ${facts}`;
    }
    default: {
      const name = SPACE_NAMES.get(partition[0] ?? 0) ?? "unknown space";
      return `${name}  ${printable(partition.subarray(1))} / ${printable(sort)}  ${facts}`;
    }
  }
}

/** The properties of a record as they travel, with their types. */
function propertiesOf(record: Uint8Array): string {
  view.reset(record);
  return `{${text(record.subarray(view.propertiesAt)).slice(1)}}`;
}

const view = new RecordView();

const SPACE_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(KEY_SPACES).map(([name, byte]) => [byte, name]),
);

function text(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("utf8");
}
