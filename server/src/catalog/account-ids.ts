import type { Engine, Entry, Key } from "../engine/engine.ts";
import { decodeText, encodeId, encodeText, partitionPrefixRange } from "../engine/key-codec.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import { KEY_SPACES, type KeySpace } from "./key-spaces.ts";

const PARTITION = Uint8Array.of(KEY_SPACES.accounts);
/** Sorts before every account name, which consists of letters and digits. */
const COUNTER: Key = { partition: PARTITION, sort: Uint8Array.of(0x01) };

/**
 * Keys contain the short ids of accounts, not their names. Looks the ids up, giving new accounts the next
 * ones; two servers that start at the same time agree.
 * @returns name → id, for every name given
 */
export async function openAccountIds(
  engine: Engine,
  names: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const keys = names.map((name) => ({ partition: PARTITION, sort: encodeText(name) }));
  for (;;) {
    const [counter, ...known] = await engine.get([COUNTER, ...keys]);
    const ids = new Map<string, number>();
    const puts = [];
    let next = counter ? readId(counter) : 0;
    for (const [i, name] of names.entries()) {
      const entry = known[i];
      ids.set(name, entry ? readId(entry) : next);
      if (!entry) puts.push({ key: keys[i]!, value: writeId(next++) });
    }
    if (puts.length === 0) return ids;
    const result = await engine.commit({
      version: engine.nextVersion(),
      checks: [{ key: COUNTER, expected: counter?.version ?? "absent" }],
      puts: [...puts, { key: COUNTER, value: writeId(next) }],
      deletes: [],
    });
    if (result.committed) return ids;
  }
}

/** id → name of every account with stored data, configured or not. */
export async function storedAccounts(engine: Engine): Promise<ReadonlyMap<number, string>> {
  const names = new Map<number, string>();
  await scanToEnd(engine, partitionPrefixRange(PARTITION), (entry) => {
    const { sort } = entry.key;
    if (sort[0] !== COUNTER.sort[0]) names.set(readId(entry), decodeText(sort));
    return true;
  });
  return names;
}

export function accountIdOf(ids: ReadonlyMap<string, number>, account: string): number {
  const id = ids.get(account);
  if (id === undefined) throw new Error(`Account "${account}" was not opened with the engine.`);
  return id;
}

/** The partition in which a service stores an account's names and properties. */
export function accountPartition(space: KeySpace, accountId: number): Uint8Array {
  return Buffer.concat([Uint8Array.of(space), encodeId(accountId)]);
}

function readId(entry: Entry): number {
  return Number(Buffer.from(entry.value).toString("latin1"));
}

function writeId(id: number): Uint8Array {
  return Buffer.from(String(id), "latin1");
}
