import { storedAccounts } from "./catalog/account-ids.ts";
import { storedNames } from "./catalog/catalog.ts";
import { KEY_SPACES, type KeySpace } from "./catalog/key-spaces.ts";
import { type Engine, EngineError, type Key } from "./engine/engine.ts";
import { decodeId, decodeText } from "./engine/key-codec.ts";

/** The names behind the ids in keys; without them, ids are printed. */
export interface StoredNames {
  readonly accounts: ReadonlyMap<number, string>;
  /** By the key space of the catalog, the id of the account and the id of the name. */
  readonly names: ReadonlyMap<string, string>;
}

const CATALOGS: readonly KeySpace[] = [
  KEY_SPACES.tableCatalog,
  KEY_SPACES.queueCatalog,
  KEY_SPACES.blobCatalog,
];

/** Reads the names of everything. @throws EngineError, also if the catalog is what is damaged. */
export async function readStoredNames(engine: Engine): Promise<StoredNames> {
  const names = new Map<string, string>();
  for (const space of CATALOGS) {
    for (const { accountId, id, name } of await storedNames(engine, space)) {
      names.set(`${space}/${accountId}/${id}`, name);
    }
  }
  return { accounts: await storedAccounts(engine), names };
}

/** What a key stands for, such as `entity "Sales" / "00042" of table Orders of account devstoreaccount1`. */
export function describeKey(key: Key, names?: StoredNames): string {
  try {
    return describeKnown(key, names);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    // The key itself is damaged.
    return `${printable(key.partition)} / ${printable(key.sort)}`;
  }
}

function describeKnown({ partition, sort }: Key, names: StoredNames | undefined): string {
  const space = partition[0];
  const owner = (what: string, catalog: KeySpace) => {
    const account = decodeId(partition, 1);
    const { id, end } = decodeId(partition, account.end);
    const name = names?.names.get(`${catalog}/${account.id}/${id}`) ?? id;
    return { end, text: `of ${what} ${name} of ${accountText(account.id, names)}` };
  };
  switch (space) {
    case KEY_SPACES.entities: {
      const { end, text } = owner("table", KEY_SPACES.tableCatalog);
      return `entity ${quoted(decodeText(partition, end))} / ${quoted(decodeText(sort))} ${text}`;
    }
    case KEY_SPACES.messages: {
      const { text } = owner("queue", KEY_SPACES.queueCatalog);
      return `message ${printable(sort)} ${text}`;
    }
    case KEY_SPACES.blobs: {
      const { text } = owner("container", KEY_SPACES.blobCatalog);
      return `blob ${quoted(Buffer.from(sort).toString("utf8"))} ${text}`;
    }
    case KEY_SPACES.tableCatalog:
    case KEY_SPACES.queueCatalog:
    case KEY_SPACES.blobCatalog:
      return `${nameOf(space)} ${printable(sort)} of ${accountText(decodeId(partition, 1).id, names)}`;
    default:
      return `${nameOf(space)} ${printable(partition.subarray(1))} / ${printable(sort)}`;
  }
}

/**
 * What each error names, for people: entries by `describeKey`, anything else by the error's own words.
 */
export async function describeDamage(
  engine: Engine,
  damage: readonly EngineError[],
): Promise<string[]> {
  if (damage.length === 0) return [];
  const names = await readStoredNames(engine).catch((error: unknown) => {
    if (!(error instanceof EngineError)) throw error;
    return undefined;
  });
  return damage.map(({ key, message }) => (key ? describeKey(key, names) : message));
}

function accountText(id: number, names: StoredNames | undefined): string {
  return `account ${names?.accounts.get(id) ?? id}`;
}

const SPACE_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(KEY_SPACES).map(([name, byte]) => [byte, name]),
);

function nameOf(space: number | undefined): string {
  return SPACE_NAMES.get(space ?? 0) ?? "unknown space";
}

function quoted(text: string): string {
  return JSON.stringify(text);
}

/** Printable ASCII as text, every other byte as `\xNN`. */
export function printable(bytes: Uint8Array): string {
  let out = "";
  for (const byte of bytes) {
    const isPlain = byte >= 0x20 && byte < 0x7f && byte !== 0x5c;
    out += isPlain ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`;
  }
  return out;
}
