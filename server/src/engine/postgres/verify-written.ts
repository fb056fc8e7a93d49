import { latin1 } from "../../byte-views.ts";
import type { AtomicWrite, Put } from "../engine.ts";
import { compareKeys, equalBytes } from "../key-codec.ts";
import { CommitExchange, type CommitExchangeOptions } from "./commit-exchange.ts";
import { identify } from "./get.ts";
import type { Outcome } from "./outcome.ts";
import { inTableOf, isOnEveryNode } from "./placement.ts";
import type { RowReader } from "./row-reader.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import type { SessionPool } from "./session-pool.ts";
import { BEGIN, COMMIT, READ_LOCKED } from "./statements.ts";

const TIME_MS = 2_000;

/**
 * Whether a write whose answer was lost did happen: every key it put holds its version and its value. No
 * other commit chose that version, so one such row proves this commit, and commits are atomic; but where a
 * version was raised or a row overwritten, the version to return would be a guess.
 *
 * False means "not proven". A deletion leaves nothing that could prove it. Nor does a name of a cluster: such a read asks
 * the coordinator's copy, while a worker that was lost between the two phases of the commit still has the old one, and
 * shows it to reads until the cluster has repeated the second phase.
 */
export async function verifyWritten(
  pool: SessionPool,
  write: AtomicWrite,
  dialect: Dialect,
): Promise<boolean> {
  if (write.puts.length === 0) return false;
  if (write.puts.some(({ key }) => isOnEveryNode(key.partition, dialect))) return false;
  const deadline = performance.now() + TIME_MS;
  try {
    while (performance.now() < deadline) {
      const session = await pool.acquire(deadline);
      const { reading, outcome } = await readLocked(session, write.puts, { deadline, dialect });
      pool.release(session);
      if (outcome.kind === "done") return reading.holdsAll(write.version);
      // The fault that broke one connection broke the idle ones too, and the server may be back in a moment.
      if (!session.isLost) return false;
    }
    return false;
  } catch {
    return false;
  }
}

async function readLocked(
  session: Session,
  puts: readonly Put[],
  options: Omit<CommitExchangeOptions, "settle">,
): Promise<{ reading: LockedReading; outcome: Outcome }> {
  return new Promise((resolve) => {
    const settle = (outcome: Outcome) => resolve({ reading, outcome });
    const reading = new LockedReading(puts, { ...options, settle });
    reading.start(session);
  });
}

/** Reads rows with locks and commits, so that what it saw is as durable as an acknowledged write. */
class LockedReading extends CommitExchange {
  readonly #dialect: Dialect;
  readonly #puts: readonly Put[];
  readonly #partitions: readonly (readonly Put[])[];
  readonly #found = new Map<string, { version: number; value: Buffer }>();

  constructor(puts: readonly Put[], options: CommitExchangeOptions) {
    super(options);
    this.#dialect = options.dialect;
    this.#puts = puts;
    // The order of the array is that of the locks.
    this.#partitions = byPartition(puts);
  }

  override start(session: Session): void {
    session.begin(this);
    session.bind(BEGIN);
    session.execute();
    for (const puts of this.#partitions) {
      const { partition } = puts[0]!.key;
      const writer = session.bind(inTableOf(partition, READ_LOCKED, this.#dialect));
      writer.bytes(partition);
      writer.bytesArray(puts.map(({ key }) => key.sort));
      session.execute();
    }
    session.bind(COMMIT);
    session.execute();
    session.sync();
  }

  override row(row: RowReader): void {
    // The first completed statement is BEGIN.
    const partition = this.#partitions[this.completed - 1]![0]!.key.partition;
    const id = identify(partition, row.bytes());
    this.#found.set(id, { version: row.int8(), value: Buffer.from(row.bytes()) });
  }

  protected override get isAtCommit(): boolean {
    return true;
  }

  holdsAll(version: number): boolean {
    return this.#puts.every(({ key, value }) => {
      const found = this.#found.get(identify(key.partition, key.sort));
      return found?.version === version && equalBytes(found.value, value);
    });
  }
}

function byPartition(puts: readonly Put[]): readonly (readonly Put[])[] {
  const groups = new Map<string, Put[]>();
  for (const put of puts) {
    const id = latin1(put.key.partition);
    const group = groups.get(id);
    if (group) group.push(put);
    else groups.set(id, [put]);
  }
  const all = [...groups.values()].map((group) => group.sort((a, b) => compareKeys(a.key, b.key)));
  return all.sort((a, b) => compareKeys(a[0]!.key, b[0]!.key));
}
