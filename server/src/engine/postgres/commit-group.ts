import { CommitExchange, type CommitExchangeOptions } from "./commit-exchange.ts";
import type { CommitPlan, LockStrength, PlannedKey, PlannedPartition } from "./commit-plan.ts";
import { identify } from "./get.ts";
import type { RowReader } from "./row-reader.ts";
import type { Session } from "./session.ts";
import {
  ASSERT_VERSIONS,
  ASSERT_VERSIONS_JOINED,
  BEGIN,
  COMMIT,
  DELETE_MANY,
  insertManyStatement,
  LOCK_CHECKED,
  LOCK_PRESENT,
  LOCK_WRITTEN,
  type Statement,
  upsertManyStatement,
  VALUES_ROWS_MAX,
} from "./statements.ts";
import { TYPE } from "./wire-writer.ts";

const LOCKS: Readonly<Record<LockStrength, Statement>> = {
  present: LOCK_PRESENT,
  checked: LOCK_CHECKED,
  written: LOCK_WRITTEN,
};

/** Where the rows of a statement go: its partition, and into which map. */
interface Answer {
  readonly partition: Buffer;
  readonly into: Map<string, number>;
}

/**
 * A commit of several keys in one round trip: BEGIN, lock, assert, writes, COMMIT and one Sync.
 * The first error stops all the rest.
 *
 * - No lost update: a checked row is locked before a later statement compares its version, and nobody
 *   changes it until COMMIT. At stricter isolation the lock itself raises 40001.
 * - No phantom, no write skew through absence: a key that must be absent takes its place in the
 *   unique index, even when it is only checked; a rival who wants it waits for our COMMIT.
 * - Few deadlocks: rows are locked in key order, partitions in their order, all locks before all
 *   writes. A cycle needs a key that comes or goes between a rival's steps; the server breaks it.
 */
export class CommitGroup extends CommitExchange {
  /** Whether `locked` tells of every key. */
  readonly isLocked: boolean;
  /** Versions of the rows that the locks found, by `identify`. */
  readonly locked = new Map<string, number>();
  /** Versions of puts that the server raised, by `identify`. */
  readonly raised = new Map<string, number>();
  readonly #plan: CommitPlan;
  /** One INSERT is atomic by itself; anything more needs BEGIN and COMMIT. */
  readonly #isOneStatement: boolean;
  readonly #isPlain: boolean;
  /** For each statement, in order, where its rows go. */
  readonly #answers: (Answer | undefined)[] = [];

  constructor(plan: CommitPlan, options: CommitExchangeOptions) {
    super(options);
    this.#plan = plan;
    const isOneInsert = isInsertOnly(plan);
    this.isLocked = !isOneInsert;
    this.#isPlain = options.dialect === "postgres";
    this.#isOneStatement = isOneInsert && this.#isPlain;
  }

  override start(session: Session): void {
    session.begin(this);
    const { partitions } = this.#plan;
    if (!this.#isOneStatement) this.#statement(session, BEGIN);
    if (this.isLocked) for (const planned of partitions) this.#lock(session, planned);
    for (const planned of partitions) this.#assert(session, planned);
    for (const planned of partitions) this.#write(session, planned);
    if (!this.#isOneStatement) this.#statement(session, COMMIT);
    session.sync();
  }

  #statement(session: Session, statement: Statement): void {
    session.bind(statement);
    session.execute();
    this.#answers.push(undefined);
  }

  #lock(session: Session, { partition, locks }: PlannedPartition): void {
    for (const { strength, keys } of locks) {
      const writer = session.bind(LOCKS[strength]);
      writer.bytes(partition);
      writeSorts(writer, keys);
      session.execute();
      this.#answers.push({ partition, into: this.locked });
    }
  }

  #assert(session: Session, { partition, checked }: PlannedPartition): void {
    if (checked.length === 0) return;
    const writer = session.bind(this.#isPlain ? ASSERT_VERSIONS : ASSERT_VERSIONS_JOINED);
    writer.bytes(partition);
    writeSorts(writer, checked);
    writer.beginArray(TYPE.int8, checked.length, checked.length * 8);
    for (const { expected } of checked) writer.int8(typeof expected === "number" ? expected : -1);
    writer.int8(checked.length);
    session.execute();
    this.#answers.push(undefined);
  }

  #write(session: Session, planned: PlannedPartition): void {
    const { partition, inserts, deletes } = planned;
    for (const { mustBeAbsent, keys } of inserts) {
      const statementFor = mustBeAbsent ? insertManyStatement : upsertManyStatement;
      for (const rows of slices(keys)) {
        this.#values(session, statementFor(rows.length), partition, rows);
      }
    }
    if (deletes.length > 0) {
      const writer = session.bind(DELETE_MANY);
      writer.bytes(partition);
      writeSorts(writer, deletes);
      session.execute();
      this.#answers.push(undefined);
    }
  }

  #values(
    session: Session,
    statement: Statement,
    partition: Buffer,
    rows: readonly PlannedKey[],
  ): void {
    const writer = session.bind(statement);
    writer.bytes(partition);
    writer.int8(this.#plan.write.version);
    for (const { sort, value } of rows) {
      writer.bytes(sort);
      writer.bytes(value);
    }
    session.execute();
    this.#answers.push({ partition, into: this.raised });
  }

  override row(row: RowReader): void {
    const answer = this.#answers[this.completed];
    if (answer === undefined) return;
    const sort = row.bytes();
    const version = row.int8();
    // Nearly every put keeps the version of the commit; only the others are worth a string.
    if (answer.into === this.raised && version === this.#plan.write.version) return;
    answer.into.set(identify(answer.partition, sort), version);
  }

  protected override get isAtCommit(): boolean {
    return this.completed >= this.#answers.length - (this.#isOneStatement ? 0 : 1);
  }
}

/**
 * One INSERT in key order needs no locks before it, whether its keys must be absent or may be there.
 * With more statements or partitions the locks keep the order of all.
 */
function isInsertOnly({ partitions }: CommitPlan): boolean {
  const [planned] = partitions;
  if (partitions.length !== 1 || planned === undefined) return false;
  const { keys, checked, inserts, deletes } = planned;
  const isOneRun = inserts.length === 1 && inserts[0]!.keys.length === keys.length;
  const isUnchecked = checked.length === 0 && deletes.length === 0;
  return isOneRun && isUnchecked && keys.length <= VALUES_ROWS_MAX;
}

function writeSorts(writer: ReturnType<Session["bind"]>, keys: readonly PlannedKey[]): void {
  let sortBytes = 0;
  for (const { sort } of keys) sortBytes += sort.length;
  writer.beginArray(TYPE.bytea, keys.length, sortBytes);
  for (const { sort } of keys) writer.bytes(sort);
}

/** Runs of rows that one VALUES list takes. */
function* slices(rows: readonly PlannedKey[]): Iterable<readonly PlannedKey[]> {
  for (let at = 0; at < rows.length; at += VALUES_ROWS_MAX) {
    yield at === 0 && rows.length <= VALUES_ROWS_MAX ? rows : rows.slice(at, at + VALUES_ROWS_MAX);
  }
}
