import type { Database } from "./database.ts";
import { bucketOf } from "./keys/hash.ts";
import { k } from "./keys/key.ts";
import { KeyShape } from "./keys/key-shape.ts";
import { encodeIsoDate } from "./keys/time.ts";
import type { Openable } from "./model/entity.ts";
import { text } from "./ports/edm.ts";
import { isRefusal } from "./ports/port-error.ts";
import type { EntityKey } from "./ports/tables.ts";
import type { Json } from "./saga.ts";
import { WRITE_TOKENS } from "./store/write-token.ts";

export interface InboxOptions {
  /** How long a repeated message is recognised; 8 days otherwise: a day more than a message lives. */
  readonly keepDays?: number;
  /** Partitions of a day; 16 otherwise. Part of the stored layout. */
  readonly buckets?: number;
}

/** Remembers which messages had their effect. */
export interface Inbox {
  /**
   * Runs `effect` unless this message had it before, and gives what it returned then. The outcome is
   * recorded after the effect, which must therefore be idempotent for the crash in between.
   * 2 R beside the effect, 1 when it is known.
   */
  once<Outcome extends Json>(
    message: { readonly id: string; readonly at: string },
    effect: () => Promise<Outcome>,
  ): Promise<Outcome>;
  /** Deletes the tables of days gone by. @returns how many. */
  forget(): Promise<number>;
}

/** Declares an inbox: one table a day, `Name20140731`, so that forgetting is dropping a table. */
export function inbox(name: string, options: InboxOptions = {}): Openable<Inbox> {
  return { tables: [], open: (database) => new TableInbox(database, name, options) };
}

const KEEP_DAYS = 8;
const BUCKETS = 16;
const DAY_MS = 24 * 3600 * 1000;
const ROW = new KeyShape([k.str("id")]);

class TableInbox implements Inbox {
  readonly #database: Database;
  readonly #name: string;
  readonly #options: InboxOptions;

  constructor(database: Database, name: string, options: InboxOptions) {
    this.#database = database;
    this.#name = name;
    this.#options = options;
  }

  async once<Outcome extends Json>(
    { id, at }: { readonly id: string; readonly at: string },
    effect: () => Promise<Outcome>,
  ): Promise<Outcome> {
    // The day the message was written on: the same for each of its deliveries.
    const table = this.#name + encodeIsoDate(new Date(at), "day");
    const partitionKey = bucketOf(id, this.#options.buckets ?? BUCKETS);
    const key = { partitionKey, rowKey: ROW.encode({ id }) };
    const known = await this.#read<Outcome>(table, key);
    if (known) return known.outcome;
    const outcome = await effect();
    const properties = {
      outcome: text(JSON.stringify(outcome ?? null)),
      [WRITE_TOKENS]: text(this.#database.writeToken()),
    };
    const insert = () =>
      this.#database.tables.commit(table, [{ kind: "insert", ...key, properties }]);
    try {
      await insert().catch(async (error) => {
        if (!isRefusal(error, 404)) throw error;
        await this.#database.tables.createTable(table);
        return insert();
      });
      return outcome;
    } catch (error) {
      // Delivered twice at the same time: the first one to record is the one that counts.
      const first = isRefusal(error, 409) && (await this.#read<Outcome>(table, key));
      if (first) return first.outcome;
      throw error;
    }
  }

  async forget(): Promise<number> {
    const { tables, clock } = this.#database;
    const oldest = new Date(clock.now() - (this.#options.keepDays ?? KEEP_DAYS) * DAY_MS);
    const range = { from: `${this.#name}0`, to: this.#name + encodeIsoDate(oldest, "day") };
    for (let count = 0, continuation: string | undefined; ; ) {
      const page = await tables.listTables({ ...range, ...(continuation && { continuation }) });
      const old = page.names.filter((name) => /^\d{8}$/.test(name.slice(this.#name.length)));
      for (const name of old) if (await tables.deleteTable(name)) count++;
      continuation = page.continuation;
      if (!continuation) return count;
    }
  }

  async #read<Outcome>(
    table: string,
    key: EntityKey,
  ): Promise<{ readonly outcome: Outcome } | undefined> {
    // A table that is not there yet holds nothing.
    const stored = await this.#database.tables.get(table, key).catch((error) => {
      if (isRefusal(error, 404)) return undefined;
      throw error;
    });
    return stored && { outcome: JSON.parse(String(stored.properties.outcome?.value)) };
  }
}
