import { CommitExchange, type CommitExchangeOptions } from "./commit-exchange.ts";
import { assertPremise } from "./commit-one.ts";
import type { CommitPlan, PlannedKey, PlannedPartition, Run } from "./commit-plan.ts";
import { identify } from "./get.ts";
import { inTableOf } from "./placement.ts";
import type { RowReader } from "./row-reader.ts";
import type { Dialect } from "./server-facts.ts";
import type { Session } from "./session.ts";
import {
  BEGIN,
  COMMIT,
  DELETE_HELD,
  DELETE_ROWS_MAX,
  deleteManyStatement,
  HOLD,
  insertManyStatement,
  type Statement,
  upsertManyStatement,
  VALUES_ROWS_MAX,
} from "./statements.ts";
import type { WireWriter } from "./wire-writer.ts";

/**
 * A commit of several keys in one round trip: BEGIN, hold every key, write, COMMIT, and one Sync. The first
 * error stops all the rest.
 *
 * Every key is held until COMMIT: by a lock on its row, which compares the row with what is expected as it
 * locks it, or by a claim of its place in the unique index, even if it only has to be absent. So there are no
 * lost updates, no phantoms and no write skew; at stricter isolation the server raises 40001 in addition.
 * Partitions and keys are held in the order of their bytes. Two commits can then deadlock only if keys appear
 * or disappear between them, and the server resolves it.
 */
export class MultiKeyCommit extends CommitExchange {
  /** Versions of puts that the server raised, by `identify`. */
  readonly raised = new Map<string, number>();
  readonly #plan: CommitPlan;
  readonly #dialect: Dialect;
  /** An INSERT is atomic by itself, also behind an assertion; anything more needs BEGIN and COMMIT. */
  readonly #isOneInsert: boolean;
  /** For each statement, in order: the partition, if the statement returns versions of puts. */
  readonly #putsOf: (Buffer | undefined)[] = [];

  constructor(plan: CommitPlan, options: CommitExchangeOptions) {
    super(options);
    this.#plan = plan;
    this.#dialect = options.dialect;
    this.#isOneInsert = this.#dialect === "postgres" && isOneInsert(plan);
  }

  override start(session: Session): void {
    session.begin(this);
    if (!this.#isOneInsert) this.#statement(session, BEGIN);
    this.#assertPremise(session);
    for (const { partition, runs } of this.#plan.partitions) {
      for (const run of runs) this.#hold(session, partition, run);
    }
    for (const planned of this.#plan.partitions) this.#write(session, planned);
    if (!this.#isOneInsert) this.#statement(session, COMMIT);
    session.sync();
  }

  #assertPremise(session: Session): void {
    const { premise } = this.#plan.write;
    if (premise?.isLoose === undefined) return;
    assertPremise(session, premise, this.#dialect);
    this.#putsOf.push(undefined);
  }

  #hold(session: Session, partition: Buffer, { hold, keys }: Run): void {
    if (hold === "claim") this.#values(session, insertManyStatement, partition, keys);
    else if (hold === "put") this.#values(session, upsertManyStatement, partition, keys);
    else this.#compare(session, HOLD[hold], partition, keys);
  }

  #compare(
    session: Session,
    statement: Statement,
    partition: Buffer,
    keys: readonly PlannedKey[],
  ): void {
    const writer = this.#bind(session, statement, partition);
    writer.bytesArray(sortsOf(keys));
    writer.int8Array(keys.map(({ expected }) => (typeof expected === "number" ? expected : -1)));
    writer.int8(keys.length);
    session.execute();
    this.#putsOf.push(undefined);
  }

  #write(session: Session, { partition, updates, deletes }: PlannedPartition): void {
    if (updates.length > 0) this.#values(session, upsertManyStatement, partition, updates);
    if (deletes.length > 0) this.#delete(session, partition, sortsOf(deletes));
  }

  #delete(session: Session, partition: Buffer, sorts: readonly Buffer[]): void {
    const isOne = this.#dialect === "postgres";
    for (let at = 0; at < sorts.length; at += DELETE_ROWS_MAX) {
      const some = isOne ? sorts : sorts.slice(at, at + DELETE_ROWS_MAX);
      const statement = isOne ? DELETE_HELD : deleteManyStatement(some.length);
      const writer = this.#bind(session, statement, partition);
      if (isOne) writer.bytesArray(sorts);
      else for (const sort of some) writer.bytes(sort);
      session.execute();
      this.#putsOf.push(undefined);
      if (isOne) return;
    }
  }

  /** Binds a statement whose first parameter is the partition. */
  #bind(session: Session, statement: Statement, partition: Buffer): WireWriter {
    const writer = session.bind(inTableOf(partition, statement, this.#dialect));
    writer.bytes(partition);
    return writer;
  }

  #values(
    session: Session,
    statementFor: (rowCount: number) => Statement,
    partition: Buffer,
    keys: readonly PlannedKey[],
  ): void {
    for (let at = 0; at < keys.length; at += VALUES_ROWS_MAX) {
      const end = Math.min(at + VALUES_ROWS_MAX, keys.length);
      const writer = this.#bind(session, statementFor(end - at), partition);
      writer.int8(this.#plan.write.version);
      for (let index = at; index < end; index++) {
        const { sort, value } = keys[index]!;
        writer.bytes(sort);
        writer.bytes(value);
      }
      session.execute();
      this.#putsOf.push(partition);
    }
  }

  #statement(session: Session, statement: Statement): void {
    session.bind(statement);
    session.execute();
    this.#putsOf.push(undefined);
  }

  override row(row: RowReader): void {
    const partition = this.#putsOf[this.completed];
    if (partition === undefined) return;
    const sort = row.bytes();
    const version = row.int8();
    // Nearly every put keeps the version of the commit; only the others are worth a string.
    if (version !== this.#plan.write.version) this.raised.set(identify(partition, sort), version);
  }

  protected override get isAtCommit(): boolean {
    return this.completed >= this.#putsOf.length - (this.#isOneInsert ? 0 : 1);
  }
}

/** Whether the whole commit is one INSERT. */
function isOneInsert({ partitions }: CommitPlan): boolean {
  const [planned] = partitions;
  if (partitions.length !== 1 || planned === undefined) return false;
  const { runs, updates, deletes } = planned;
  const [run] = runs;
  const isInsert = run?.hold === "claim" || run?.hold === "put";
  const isAll = runs.length === 1 && updates.length === 0 && deletes.length === 0;
  return isInsert && isAll && run.keys.length <= VALUES_ROWS_MAX;
}

function sortsOf(keys: readonly PlannedKey[]): readonly Buffer[] {
  return keys.map(({ sort }) => sort);
}
