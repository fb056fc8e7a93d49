import { deleteRows } from "./bulk-delete.ts";
import { EntityDefinition } from "./entities/entity.ts";
import { type EntityOf, runTransaction, type Transaction } from "./entities/transaction.ts";
import {
  assertBetween,
  assertSome,
  definitionRefused,
  isTableError,
  reasonOf,
  validationFailed,
} from "./errors.ts";
import { bucketOf } from "./keys/hash.ts";
import { type KeyDeclaration, k } from "./keys/key.ts";
import { within } from "./keys/key-range.ts";
import { KeyShape } from "./keys/key-shape.ts";
import { encodeIsoDate } from "./keys/time.ts";
import { slices } from "./long-text.ts";
import {
  assertEntityFits,
  assertKeyFits,
  EntityRows,
  type Fields,
  type Row,
} from "./model/entity-rows.ts";
import { type Field, f } from "./model/field.ts";
import type { AnyEntity, Indexes } from "./model/follower.ts";
import type { KeyEquality } from "./model/key-query.ts";
import { type Openable, openable } from "./model/openable.ts";
import { assertTable } from "./model/storage-name.ts";
import { text } from "./ports/edm.ts";
import { isRefusal, unlessRefused } from "./ports/port-error.ts";
import type { EntityKey, StoredEntity } from "./ports/tables.ts";
import { type From, pages, pagesOf } from "./query/pages.ts";
import { DAY_MS } from "./store/clock.ts";
import type { Json } from "./store/json-row.ts";
import type { Session } from "./store/session.ts";
import { WRITE_TOKENS } from "./store/write-token.ts";

export interface InboxOptions {
  /** How long a repeated message is recognized. Default: 8 days, one day longer than a message lives. */
  readonly keepDays?: number;
  /** Partitions per day. Default: 16. Part of the stored layout. */
  readonly buckets?: number;
}

/** Remembers which messages have had their effect. */
export interface Inbox {
  /**
   * Runs `effect` unless this message has had it before, and returns what it returned then. The outcome is
   * recorded after the effect, as JSON of at most 1 MiB at 2 bytes a character; a crash in between repeats the
   * effect, which must therefore be idempotent. 2 R besides the effect, 1 R when the outcome is known.
   * @throws validation-failed when `at` is not a date.
   */
  once<Outcome extends Json>(
    message: { readonly id: string; readonly at: string },
    effect: () => Promise<Outcome>,
  ): Promise<Outcome>;
  /** Deletes the tables of expired days. @returns how many. */
  forget(): Promise<number>;
}

/**
 * Declares an inbox: one table per day, `Name20140731`, so that forgetting is dropping a table.
 * @throws invalid-definition for an invalid name or number.
 */
export function inbox(name: string, options: InboxOptions = {}): Openable<Inbox> {
  const subject = `The inbox ${name}`;
  const { keepDays = KEEP_DAYS, buckets = BUCKETS } = options;
  assertTable(subject, `${name}20140731`);
  assertSome(subject, { buckets, keepDays }, definitionRefused, KEEP_DAYS_MAX);
  return { tables: [], open: (session) => new TableInbox(session, name, options) };
}

/** Remembers messages in the partition that they change. */
export interface TransactionInbox<Partition> {
  /**
   * Commits what `work` plans together with a record of this message, in one transaction: once, however often
   * the message is delivered, so the effect need not be idempotent. False when it was delivered before. 1 R
   * then, otherwise 1 R besides the transaction.
   */
  once(
    partition: Partition,
    message: { readonly id: string },
    work: (transaction: Transaction) => unknown,
  ): Promise<boolean>;
  /** Forgets the messages of a partition that were handled this long ago. Default: 8 days. @returns how many. */
  forget(partition: Partition, olderThanMs?: number): Promise<number>;
}

/**
 * Declares an inbox in the partitions of an entity: `[PartitionKey | inbox_<message id>]`.
 * @throws invalid-definition for an entity whose keys it could collide with.
 */
export function inboxIn<
  F extends Fields,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  I extends Indexes,
>(definition: EntityDefinition<string, F, P, R, I>): Openable<TransactionInbox<KeyEquality<P>>> {
  if (definition.rows.row.mayBeginWith(PREFIX)) {
    const message = "must begin with a literal other than inbox";
    throw definitionRefused(definition.name, "row key", message);
  }
  return openable([], (session) => new PartitionInbox(session, definition));
}

class PartitionInbox {
  readonly #session: Session;
  readonly #handled: EntityOf<Row, KeyDeclaration, KeyDeclaration, Readonly<Record<never, never>>>;

  constructor(session: Session, { rows, table }: AnyEntity) {
    this.#session = session;
    const fields: Record<string, Field> = { [MESSAGE]: f.string(), handledAt: f.date() };
    for (const { field } of rows.partition.segments) fields[field] = rows.fields[field]!;
    this.#handled = new EntityDefinition(
      "Handled",
      table,
      new EntityRows("Handled", {
        version: 1,
        fields,
        key: { partition: rows.partition, row: [k.lit("inbox"), k.str(MESSAGE)] },
      }),
      {},
      {},
    );
  }

  async once(
    partition: Row,
    message: { readonly id: string },
    work: (transaction: Transaction) => unknown,
  ): Promise<boolean> {
    const { id }: typeof message = Object(message);
    const { clock } = this.#session;
    const key = { ...partition, [MESSAGE]: id };
    if (await this.#handled.open(this.#session).get(key)) return false;
    try {
      await runTransaction(this.#session, partition, async (transaction) => {
        // Planned first, so that its refusal is reported before that of others.
        transaction.insert(this.#handled, { ...key, handledAt: new Date(clock.now()) });
        await work(transaction);
      });
      return true;
    } catch (error) {
      const { rowKey } = this.#handled.rows.key(key, this.#session.profile);
      if (isTableError(error, "unique-violation") && error.key === rowKey) return false;
      throw error;
    }
  }

  async forget(partition: Row, olderThanMs = KEEP_DAYS * DAY_MS): Promise<number> {
    const { rows, table } = this.#handled;
    assertBetween("The inbox", { olderThanMs }, 0);
    const before = this.#session.clock.now() - olderThanMs;
    const partitionKey = rows.partitionKey(partition);
    let count = 0;
    const range = { partitionKey, rows: within(PREFIX) };
    const isOld = (row: StoredEntity) => Number(rows.decode(row)?.handledAt) < before;
    // In the version that was read: a message that was forgotten elsewhere and came again has a young row.
    const asRead = async () => {};
    for await (const { entities } of pagesOf(this.#session, table, range)) {
      const old = entities.filter(isOld);
      count += await deleteRows(this.#session, table, old, asRead, isOld);
    }
    return count;
  }
}

const MESSAGE = "messageId";
const PREFIX = "inbox_";
const KEEP_DAYS = 8;
/** A hundred years: all of these dates are valid. More buckets would not help either. */
const KEEP_DAYS_MAX = 36_500;
const BUCKETS = 16;
const ROW = new KeyShape([k.str("id")]);

class TableInbox implements Inbox {
  readonly #session: Session;
  readonly #name: string;
  readonly #options: InboxOptions;

  constructor(session: Session, name: string, options: InboxOptions) {
    this.#session = session;
    this.#name = name;
    this.#options = options;
  }

  async once<Outcome extends Json>(
    message: { readonly id: string; readonly at: string },
    effect: () => Promise<Outcome>,
  ): Promise<Outcome> {
    const { id, at }: typeof message = Object(message);
    const table = this.#name + dayOf(at);
    const partitionKey = bucketOf(id, this.#options.buckets ?? BUCKETS);
    const key = { partitionKey, rowKey: ROW.encode({ id }) };
    assertKeyFits(key, this.#session.profile);
    const known = await this.#read<Outcome>(table, key);
    if (known) return known.outcome;
    const outcome = await effect();
    const parts = slices(JSON.stringify(outcome ?? null));
    const properties = {
      ...Object.fromEntries(parts.map((part, i) => [outcomeAt(i), text(part)])),
      [WRITE_TOKENS]: text(this.#session.writeToken()),
    };
    assertEntityFits(key, properties);
    const insert = () =>
      this.#session.tables.commit(table, [{ kind: "insert", ...key, properties }]);
    try {
      if (!(await unlessRefused(insert(), 404))) {
        await this.#session.tables.createTable(table);
        await insert();
      }
      return outcome;
    } catch (error) {
      // Two concurrent deliveries: the outcome recorded first counts.
      const first = isRefusal(error, 409) && (await this.#read<Outcome>(table, key));
      if (first) return first.outcome;
      throw error;
    }
  }

  async forget(): Promise<number> {
    const { tables, clock } = this.#session;
    const oldest = new Date(clock.now() - (this.#options.keepDays ?? KEEP_DAYS) * DAY_MS);
    const range = { from: `${this.#name}0`, to: this.#name + encodeIsoDate(oldest, "day") };
    let count = 0;
    for await (const { names } of pages((from: From<string>) =>
      tables.listTables({ ...range, ...from }),
    )) {
      const old = names.filter((name) => /^\d{8}$/.test(name.slice(this.#name.length)));
      for (const name of old) if (await tables.deleteTable(name)) count++;
    }
    return count;
  }

  async #read<Outcome>(
    table: string,
    key: EntityKey,
  ): Promise<{ readonly outcome: Outcome } | undefined> {
    // A table that does not exist yet holds nothing.
    const stored = await unlessRefused(this.#session.tables.get(table, key), 404);
    if (!stored) return undefined;
    let json = "";
    for (let i = 0; outcomeAt(i) in stored.properties; i++) {
      json += stored.properties[outcomeAt(i)]?.value;
    }
    return { outcome: JSON.parse(json) };
  }
}

/** The day on which the message was written, the same for every delivery. */
function dayOf(at: string): string {
  try {
    return encodeIsoDate(new Date(at), "day");
  } catch (error) {
    throw validationFailed("The message", "at", reasonOf(error));
  }
}

/** The property for a part of the outcome, which may be longer than one property holds. */
function outcomeAt(part: number): string {
  return part === 0 ? "outcome" : `outcome_${part}`;
}
