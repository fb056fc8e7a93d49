import { assertBetween, definitionRefused, validationFailed } from "./errors.ts";
import { within } from "./keys/key-range.ts";
import { textOf } from "./messages/large-message.ts";
import { HIDDEN_MS_MAX, type Message, messageOf, type NewMessage } from "./messages/message.ts";
import { Tripwire } from "./messages/tripwire.ts";
import { type Row as Decoded, TYPE_PROPERTY } from "./model/entity-rows.ts";
import type {
  AnyEntity,
  Change,
  Contribution,
  Follower,
  FollowerContext,
  OpenFollower,
} from "./model/follower.ts";
import { nameProblems } from "./model/storage-name.ts";
import { STRING_LENGTH_MAX, text } from "./ports/edm.ts";
import { deleteOf } from "./ports/mutation.ts";
import { unlessRefused } from "./ports/port-error.ts";
import type { EntityKey, StoredEntity } from "./ports/tables.ts";
import { pagesOf } from "./query/pages.ts";
import type { Handler } from "./queue-worker.ts";
import { queuesOf } from "./store/connected-ports.ts";
import type { Session } from "./store/session.ts";
import { WRITE_TOKENS } from "./store/write-token.ts";

/** An entity before and after a write: both for an update, one for an insert or a delete. */
export interface OutboxChange<Entity> {
  readonly key: EntityKey;
  readonly before?: { readonly row: Entity; readonly stored: StoredEntity } | undefined;
  readonly after?: Entity | undefined;
}

export interface OutboxOptions<Entity = Decoded> {
  readonly queue: string;
  /** The messages for a change; undefined for none. Pure. */
  readonly message: (
    change: OutboxChange<Entity>,
  ) => NewMessage | readonly NewMessage[] | undefined;
  /** When a worker takes over for a writer that did not finish. Default: 90 seconds. */
  readonly tripwireMs?: number;
}

/**
 * Declares that every change of the entity sends a message: both happen, or neither. Write `outbox<Infer<typeof
 * fields>>` to type the entity.
 */
export function outbox<Entity = Decoded>(options: OutboxOptions<Entity>): Follower {
  // Rows are decoded by the definition that the outbox is declared on.
  return new Outbox(options as OutboxOptions);
}

const KIND = "outbox";
const PREFIX = "outbox_";
const MESSAGE = "message";
const TYPE = "outbox:1";
const TRIPWIRE_MS = 90_000;
const TRIPWIRE_MIN_MS = 5000;
/** A tripwire that fires before the commit finds nothing and is deleted, so the commit must come long before. */
const COMMIT_MS = 20_000;

interface Replay {
  readonly table: string;
  readonly partitionKey: string;
}

/**
 * The message is committed with the change, as a row next to it, then sent, then the row is deleted. A tripwire
 * sent beforehand makes a worker send what a crashed writer did not. Messages may arrive twice, with the same
 * id.
 */
class Outbox implements Follower {
  readonly tables: readonly string[] = [];
  readonly queues: readonly string[];
  readonly #options: OutboxOptions;

  constructor(options: OutboxOptions) {
    this.#options = options;
    this.queues = [options.queue];
    const { tripwireMs = TRIPWIRE_MS } = options;
    const limits = [TRIPWIRE_MIN_MS, HIDDEN_MS_MAX] as const;
    assertBetween("The outbox", { tripwireMs }, ...limits, definitionRefused);
  }

  problems({ rows }: AnyEntity): string[] {
    return [
      ...nameProblems({ queue: this.#options.queue }),
      ...(rows.row.mayBeginWith(PREFIX)
        ? ["needs a row key that begins with a literal other than outbox"]
        : []),
    ];
  }

  follow({ session, entity }: FollowerContext): OpenFollower {
    return {
      reachesOut: true,
      prepare: (change) => this.#prepare(session, entity.table, change),
    };
  }

  async #prepare(session: Session, table: string, change: Change): Promise<Contribution> {
    const { queue, message, tripwireMs = TRIPWIRE_MS } = this.#options;
    const messages = [message(change) ?? []].flat().map((one) => messageOf(session, one));
    if (messages.length === 0) return {};
    const { partitionKey } = change.key;
    const rows = messages.map((message) => {
      const letter = JSON.stringify({ queue, message });
      // Refuses what no queue or row can hold, before anything is sent or committed.
      textOf(message);
      if (letter.length > STRING_LENGTH_MAX) {
        const message = `${letter.length} characters; at most ${STRING_LENGTH_MAX} fit in a row`;
        throw validationFailed("The message", "body", message);
      }
      const properties = {
        [MESSAGE]: text(letter),
        [TYPE_PROPERTY]: text(TYPE),
        [WRITE_TOKENS]: text(change.token),
      };
      // A key of its own: message ids are the caller's, and another client may be about to delete an earlier
      // row.
      return { partitionKey, rowKey: PREFIX + session.writeToken(), properties };
    });
    const wire = { queue, kind: KIND, delayMs: tripwireMs };
    const body: Replay = { table, partitionKey };
    const key = `${table} ${partitionKey}`;
    const commitByMs = session.clock.now() + Math.min(COMMIT_MS, tripwireMs / 2);
    const tripwire = await Tripwire.sharedBy(session, change, wire, () => ({ key, body }));
    return {
      mutations: rows.map((row) => ({ kind: "insert", ...row })),
      commitByMs,
      committed: async () => {
        try {
          for (const row of rows) await send(session, table, row);
          await tripwire.done(true);
        } catch (error) {
          const index = `${table}.outbox`;
          session.report({ kind: "left behind", index, key: partitionKey, error });
        }
      },
    };
  }
}

/** The handler that sends what writers left in their outboxes. */
export function outboxReplay(): Handler {
  return {
    kind: KIND,
    async handle({ body }, { database: session }) {
      // We sent it ourselves; the handler's kind says so.
      const { table, partitionKey } = body as Replay;
      const range = { partitionKey, rows: within(PREFIX) };
      const failures = new Map<string, unknown>();
      for await (const { entities } of pagesOf(session, table, range)) {
        for (const row of entities) {
          // A row that other software wrote here is not a message.
          if (row.properties[TYPE_PROPERTY]?.value !== TYPE) continue;
          const { queue } = letterIn(row);
          // After a failure, further messages to that queue wait for the next attempt.
          if (failures.has(queue)) continue;
          await send(session, table, row).catch((error) => failures.set(queue, error));
        }
      }
      for (const error of failures.values()) throw error;
    },
  };
}

type Row = EntityKey & Pick<StoredEntity, "properties">;

/** Sends first and deletes second: a crash in between sends it twice, the other order could lose it. */
async function send(session: Session, table: string, row: Row): Promise<void> {
  const { queue, message } = letterIn(row);
  await queuesOf(session).send(queue, textOf(message));
  await unlessRefused(session.tables.commit(table, [deleteOf(row)]), 404);
}

/** As it was committed: only we write such rows. */
function letterIn({ properties }: Row): { readonly queue: string; readonly message: Message } {
  return JSON.parse(String(properties[MESSAGE]?.value));
}
