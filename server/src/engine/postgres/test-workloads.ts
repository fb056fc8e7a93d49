import assert from "node:assert/strict";
import type { Check, Engine, Entry, Key, Put } from "../engine.ts";
import { partitionRange } from "../key-codec.ts";

/**
 * Histories with many rivals whose outcome shows whether commits were atomic and isolated. Each runs over
 * several engines on one database, as front ends do, and fails by assertion.
 */

/** The part of an engine that the workloads need: the tests also run them over faulty ones. */
export type Store = Pick<Engine, "nextVersion" | "get" | "commit">;

export function keyOf(partition: string, sort: string): Key {
  return { partition: Buffer.from(partition), sort: Buffer.from(sort) };
}

export function textOf(entry: Entry | undefined): string | undefined {
  return entry && Buffer.from(entry.value).toString();
}

interface Steps {
  readonly checks?: readonly Check[];
  readonly puts?: readonly (readonly [Key, string])[];
  readonly deletes?: readonly Key[];
}

export async function commit(store: Store, steps: Steps): Promise<boolean> {
  const puts: Put[] = (steps.puts ?? []).map(([key, text]) => ({ key, value: Buffer.from(text) }));
  const { checks = [], deletes = [] } = steps;
  return (await store.commit({ version: store.nextVersion(), checks, puts, deletes })).committed;
}

/** Many writers read, add one and write back unless a rival came between: no success may be lost. */
export async function countTogether(
  stores: readonly Store[],
  size: { readonly writers: number; readonly additions: number },
): Promise<void> {
  // Two keys in one commit, so that the form with locks is used.
  const keys = [keyOf("counter", "a"), keyOf("counter", "b")];
  await commit(stores[0]!, { puts: keys.map((key) => [key, "0"] as const) });
  let successes = 0;
  await together(size.writers, async (writer) => {
    const store = stores[writer % stores.length]!;
    for (let done = 0; done < size.additions; ) {
      const [entry] = await store.get(keys);
      const next = `${Number(textOf(entry)) + 1}`;
      const won = await commit(store, {
        checks: [{ key: keys[0]!, expected: entry!.version }],
        puts: keys.map((key) => [key, next] as const),
      });
      if (!won) continue;
      successes++;
      done++;
    }
  });
  const counts = (await stores[0]!.get(keys)).map(textOf);
  assert.deepEqual(counts, [`${successes}`, `${successes}`], "A success was lost.");
}

/**
 * The same with commits of one key each, many at once from each store, on a few keys: incremented, deleted at
 * a limit and put again, so that every form of a commit of one key meets every other.
 */
export async function countApart(
  stores: readonly Store[],
  size: { readonly counters: number; readonly writers: number; readonly additions: number },
): Promise<void> {
  const keys = Array.from({ length: size.counters }, (_, counter) => keyOf("apart", `${counter}`));
  const added = keys.map(() => 0);
  const takenAway = keys.map(() => 0);
  await together(size.writers, async (writer) => {
    const store = stores[writer % stores.length]!;
    for (let done = 0; done < size.additions; ) {
      const counter = (writer + done) % keys.length;
      const key = keys[counter]!;
      const [entry] = await store.get([key]);
      const count = Number(textOf(entry) ?? 0);
      const isFull = count === COUNT_MAX;
      const won = await commit(store, {
        checks: [{ key, expected: entry?.version ?? "absent" }],
        ...(isFull ? { deletes: [key] } : { puts: [[key, `${count + 1}`] as const] }),
      });
      if (!won) continue;
      if (isFull) takenAway[counter]! += COUNT_MAX;
      else added[counter]!++;
      done++;
    }
  });
  const counts = (await stores[0]!.get(keys)).map((entry) => Number(textOf(entry) ?? 0));
  const expected = added.map((sum, counter) => sum - takenAway[counter]!);
  assert.deepEqual(counts, expected, "A success was lost.");
}

const COUNT_MAX = 5;

/** Many writers insert the same three keys, change the same version, delete it: one wins, and wins all. */
export async function winAlone(
  stores: readonly Store[],
  size: { readonly rounds: number; readonly rivals: number },
): Promise<void> {
  for (let round = 0; round < size.rounds; round++) {
    const keys = ["c", "a", "b"].map((sort) => keyOf(`winner${round}`, sort));
    const contest = async (stepsOf: (rival: number) => Steps) => {
      const won = await together(size.rivals, (rival) =>
        commit(stores[rival % stores.length]!, stepsOf(rival)),
      );
      assert.equal(won.filter(Boolean).length, 1, "Not exactly one rival won.");
      return `${won.indexOf(true)}`;
    };
    const putAll = (text: string) => keys.map((key) => [key, text] as const);
    const assertAll = async (text: string | undefined) => {
      const found = (await stores[round % stores.length]!.get(keys)).map(textOf);
      assert.deepEqual(found, [text, text, text], "The winner did not write all keys.");
    };
    const inserter = await contest((rival) => ({
      checks: keys.map((key) => ({ key, expected: "absent" })),
      puts: putAll(`${rival}`),
    }));
    await assertAll(inserter);
    const versions = (await stores[0]!.get(keys)).map((entry) => entry!.version);
    const asRead: Check[] = keys.map((key, index) => ({ key, expected: versions[index]! }));
    const updater = await contest((rival) => ({ checks: asRead, puts: putAll(`${rival}`) }));
    await assertAll(updater);
    await contest(() => ({
      checks: keys.map((key) => ({ key, expected: "present" })),
      deletes: keys,
    }));
    await assertAll(undefined);
  }
}

/** Transfers between accounts, where an empty account is an absent row: every reader sees the same sum. */
export async function bankTogether(
  stores: readonly Store[],
  size: { readonly accounts: number; readonly tellers: number; readonly transfers: number },
): Promise<void> {
  const partitionOf = (account: number) => `bank${account % 2}`;
  const accounts = Array.from({ length: size.accounts }, (_, account) =>
    keyOf(partitionOf(account), `${account}`),
  );
  const total = size.accounts * 2;
  await commit(stores[0]!, { puts: accounts.map((key) => [key, "2"] as const) });
  let isOpen = true;
  const reader = (async () => {
    for (let round = 0; isOpen; round++) {
      const entries = await stores[round % stores.length]!.get(accounts);
      assert.equal(sum(entries), total, "A reader saw a transfer half done.");
    }
  })();
  await together(size.tellers, async (teller) => {
    const store = stores[teller % stores.length]!;
    for (let done = 0; done < size.transfers; done++) {
      const chosen = pick(accounts, 2 + ((teller + done) % 3), teller * 7 + done);
      await transfer(store, chosen);
    }
  }).finally(async () => {
    isOpen = false;
    await reader;
  });
  assert.equal(sum(await stores[0]!.get(accounts)), total);
}

async function transfer(store: Store, keys: readonly Key[]): Promise<void> {
  const entries = await store.get(keys);
  const balances = entries.map((entry) => Number(textOf(entry) ?? 0));
  const giver = balances.findIndex((balance) => balance > 0);
  if (giver < 0) return;
  const taker = (giver + 1) % keys.length;
  balances[giver]!--;
  balances[taker]!++;
  const puts: [Key, string][] = [];
  const deletes: Key[] = [];
  for (const [index, balance] of balances.entries()) {
    if (balance > 0) puts.push([keys[index]!, `${balance}`]);
    else if (entries[index]) deletes.push(keys[index]!);
  }
  const checks: Check[] = keys.map((key, index) => ({
    key,
    expected: entries[index]?.version ?? "absent",
  }));
  await commit(store, { checks, puts, deletes });
}

/** "Put B if A is absent" against "put A if B is absent": never both, never neither, no trace of claims. */
export async function skewTogether(
  stores: readonly Store[],
  size: { readonly rounds: number },
): Promise<void> {
  for (let round = 0; round < size.rounds; round++) {
    const [left, right] = [keyOf(`skew${round}`, "left"), keyOf(`skew${round % 2}x`, `r${round}`)];
    const keys = [left, right];
    const won = await together(2, (side) =>
      commit(stores[side % stores.length]!, {
        checks: [{ key: keys[side]!, expected: "absent" }],
        puts: [[keys[1 - side]!, "here"]],
      }),
    );
    const found = (await stores[0]!.get(keys)).map(textOf);
    assert.equal(won.filter(Boolean).length, 1, "Not exactly one of the two won.");
    assert.equal(found[won[0] ? 1 : 0], "here");
    assert.equal(found[won[0] ? 0 : 1], undefined, "A claim was left behind.");
  }
}

/** Unconditional writes of the same keys in any order: no read is torn, and no writer is stuck. */
export async function overlapTogether(
  stores: readonly Store[],
  size: { readonly writers: number; readonly writes: number },
): Promise<void> {
  const keys = Array.from({ length: 6 }, (_, index) => keyOf(`overlap${index % 2}`, `${index}`));
  await together(size.writers, async (writer) => {
    const store = stores[writer % stores.length]!;
    for (let done = 0; done < size.writes; done++) {
      const shuffled = pick(keys, keys.length, writer * 5 + done);
      const isDeletion = (writer + done) % 3 === 0;
      await commit(
        store,
        isDeletion
          ? { deletes: shuffled }
          : { puts: shuffled.map((key) => [key, `${writer}.${done}`] as const) },
      );
      const found = new Set((await store.get(keys)).map(textOf));
      assert.equal(found.size, 1, `A reader saw a torn commit: ${[...found].join(" ")}.`);
    }
  });
}

/** Runs the work items at the same time and waits for all, failed or not, so that none outlives its test. */
export async function together<T>(
  count: number,
  work: (index: number) => Promise<T>,
): Promise<T[]> {
  const all = Array.from({ length: count }, (_, index) => work(index));
  await Promise.allSettled(all);
  return Promise.all(all);
}

/** `count` elements in an order that `seed` determines. */
function pick<T>(from: readonly T[], count: number, seed: number): T[] {
  const rest = [...from];
  let state = seed * 2_654_435_761 + 12_345;
  return Array.from({ length: count }, () => {
    state = (state * 1_103_515_245 + 12_345) >>> 0;
    return rest.splice((state >>> 8) % rest.length, 1)[0]!;
  });
}

function sum(entries: readonly (Entry | undefined)[]): number {
  return entries.reduce((total, entry) => total + Number(textOf(entry) ?? 0), 0);
}

/** All entries of one partition. */
export async function scanPartition(engine: Engine, partition: string): Promise<string[]> {
  const range = partitionRange(Buffer.from(partition));
  const found: string[] = [];
  for (let start = range.start; ; ) {
    const end = await engine.scan({ start, end: range.end }, (entry) => {
      const sort = Buffer.from(entry.key.sort).toString();
      found.push(`${sort}=${textOf(entry)}`);
      return true;
    });
    if (typeof end === "string") return found;
    start = end.resumeAt;
  }
}
