import { LIMITS } from "./limits.ts";

export const WRITE_MODES = ["insert", "merge", "replace"] as const;
/** What happens to an entity that exists: `insert` refuses it, `merge` keeps its other properties. */
export type WriteMode = (typeof WRITE_MODES)[number];

/** One change of one entity, in the order of its source. */
export interface KeyedChange {
  readonly partitionKey: string;
  readonly rowKey: string;
  /** As JSON; undefined to delete it. */
  readonly entity: Uint8Array | undefined;
}

/** What is wrong with a transaction, and with which of its changes. */
export interface Failure {
  readonly index: number;
  readonly status: number;
  /** The endpoint's status, code and text. */
  readonly reason: string;
}

export interface Refused<Change> {
  readonly change: Change;
  readonly reason: string;
  readonly status: number;
}

/** Bytes of a request's other parts for each operation in a transaction, at the most. */
const OPERATION_BYTES = 600;
/** A row key may take nine bytes a character in the URL. */
const KEY_BYTES = 9;

/**
 * Writes changes as entity group transactions, `atOnce` at a time. A change that is refused is reported and left out;
 * all others are written.
 * @param send one transaction; what it throws ends the work
 */
export async function writeInTransactions<Change extends KeyedChange>(
  changes: readonly Change[],
  atOnce: number,
  send: (transaction: readonly Change[]) => Promise<Failure | undefined>,
): Promise<Refused<Change>[]> {
  const refused: Refused<Change>[] = [];
  for (const run of runsOf(changes)) {
    const groups = groupsOf(run);
    let taken = 0;
    const work = async () => {
      while (taken < groups.length) refused.push(...(await writeGroup(groups[taken++]!, send)));
    };
    await Promise.all(Array.from({ length: atOnce }, work));
  }
  return refused;
}

/** Changes of different entities may overtake each other; those of one must not, so a key that repeats begins a new run. */
function runsOf<Change extends KeyedChange>(changes: readonly Change[]): Change[][] {
  const runs: Change[][] = [];
  let run: Change[] = [];
  let keys = new Set<string>();
  for (const change of changes) {
    const key = JSON.stringify([change.partitionKey, change.rowKey]);
    if (run.length === 0 || keys.has(key)) {
      run = [];
      keys = new Set();
      runs.push(run);
    }
    run.push(change);
    keys.add(key);
  }
  return runs;
}

/** The changes of each partition, within the limits of a transaction. */
function groupsOf<Change extends KeyedChange>(changes: readonly Change[]): Change[][] {
  const groups: Change[][] = [];
  const open = new Map<string, { readonly group: Change[]; bytes: number }>();
  for (const change of changes) {
    const { partitionKey, rowKey, entity } = change;
    const size =
      (entity?.length ?? 0) + OPERATION_BYTES + KEY_BYTES * (partitionKey.length + rowKey.length);
    let last = open.get(partitionKey);
    if (
      last === undefined ||
      last.group.length === LIMITS.transactionOperationsMax ||
      last.bytes + size > LIMITS.bodyBytesMax
    ) {
      last = { group: [], bytes: 0 };
      open.set(partitionKey, last);
      groups.push(last.group);
    }
    last.group.push(change);
    last.bytes += size;
  }
  return groups;
}

async function writeGroup<Change extends KeyedChange>(
  group: readonly Change[],
  send: (transaction: readonly Change[]) => Promise<Failure | undefined>,
): Promise<Refused<Change>[]> {
  const refused: Refused<Change>[] = [];
  let left = [...group];
  while (left.length > 0) {
    const failure = await send(left);
    if (failure === undefined) break;
    const { index, reason, status } = failure;
    const change = left[index]!;
    refused.push({ change, reason, status });
    left = left.filter((each) => each !== change);
  }
  return refused;
}
