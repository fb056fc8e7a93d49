import assert from "node:assert/strict";
import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import { ServiceError } from "@rowhouse/protocol/errors";
import { type Awaitable, whenReady } from "../awaitable.ts";
import type { Catalog, Named } from "../catalog/catalog.ts";
import type { Clock } from "../clock.ts";
import { CallTime } from "../engine/call-time.ts";
import { type Engine, EngineError, type Entry } from "../engine/engine.ts";
import type { Metadata } from "../wire/metadata.ts";
import { invalidParameter } from "../wire/query-parameters.ts";
import { Dispenser } from "./dispenser.ts";
import { MessageCounter } from "./message-counter.ts";
import { toMessageId } from "./message-id.ts";
import { ID_BYTES, queuePartition, type ReadyPlace, recordKey } from "./message-keys.ts";
import { decodeMessage, type Message, NONCE_BYTES, readPlace } from "./message-record.ts";
import { MessagesChange, writeOfNewMessage } from "./messages-change.ts";
import { isPresentReceipt, type PopReceipt } from "./pop-receipt.ts";
import { VisibleMessages } from "./visible-messages.ts";

/** The catalog's value for a queue. */
export interface QueueValue {
  readonly metadata: Metadata;
  readonly policies: readonly AccessPolicy[];
}

export interface QueueName {
  readonly account: string;
  readonly name: string;
}

/** A message as the consumer that holds it names it. */
export interface HeldMessage {
  /** Undefined for an id that is not a GUID. */
  readonly id: string | undefined;
  /** Or the refusal of what was presented instead of one. */
  readonly receipt: PopReceipt | ServiceError;
}

export interface MessageStoreOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly catalog: Catalog<QueueValue>;
  /** Unguessable: message ids and pop receipts are made from them. */
  readonly randomBytes: (count: number) => Buffer;
  /** Called when expired messages slow down receiving. */
  readonly onManyExpired: () => void;
}

/** 9999-12-31T23:59:59Z, which means never. */
export const NEVER = Date.UTC(9999, 11, 31, 23, 59, 59);

/** An open queue: its catalog entry, and the partition that holds its messages. */
interface OpenQueue {
  readonly named: Named<QueueValue>;
  readonly partition: Uint8Array;
}

/**
 * The messages of all queues. Each is in one of two states until it is gone:
 *
 *            put(0)                             put(v > 0)
 *              │     receive, update(v > 0)         │
 *              ▼  ──────────────────────────────▶   ▼
 *           VISIBLE                             INVISIBLE ◀─┐ update(v > 0)
 *                 ◀──────────────────────────────        ───┘
 *                   visibleAt passes, update(0)
 *
 *   either ── delete, clear, expiresAt passes ──▶ gone
 *
 * No timer moves a message between states: it is visible from `visibleAt` to `expiresAt` by the clock of each
 * reader, and gone from then on. The sweeper only frees messages that are already gone.
 *
 * Put, receive and update each issue a pop receipt. Update and delete accept only the receipt issued last,
 * which stays valid after the message becomes visible again, until the message is next received.
 *
 * Every change is one commit that checks the version of the record. Of two concurrent changes one wins and
 * the other reads again, so no two consumers hold a message at once, and a deleted message stays deleted. The
 * `Dispenser` keeps receivers from racing for the same messages.
 */
export class MessageStore {
  readonly #options: MessageStoreOptions;
  readonly #engine: Engine;
  readonly #counter: MessageCounter;
  readonly #visible: VisibleMessages;
  readonly #dispenser: Dispenser;
  readonly #partitions = new WeakMap<Named<QueueValue>, Uint8Array>();

  constructor(options: MessageStoreOptions) {
    this.#options = options;
    this.#engine = options.engine;
    this.#visible = new VisibleMessages(options.engine, options.onManyExpired);
    this.#dispenser = new Dispenser(this.#visible, options.clock);
    this.#counter = new MessageCounter(options.engine, options.clock);
  }

  /**
   * Adds a message that is hidden for `visibilityTimeoutMs` and expires after `timeToLiveMs`, which may be
   * infinite.
   * @throws ServiceError QueueNotFound
   */
  async put(
    queue: QueueName,
    message: {
      readonly text: Uint8Array;
      readonly visibilityTimeoutMs: number;
      readonly timeToLiveMs: number;
    },
  ): Promise<Message> {
    const { partition } = await this.#open(queue);
    const now = this.#options.clock.now();
    const random = this.#options.randomBytes(ID_BYTES + NONCE_BYTES);
    const version = this.#engine.nextVersion();
    const stored: Message = {
      id: toMessageId(random),
      insertedAt: now,
      expiresAt: Math.min(now + message.timeToLiveMs, NEVER),
      visibleAt: now + message.visibilityTimeoutMs,
      sequence: version,
      dequeueCount: 0,
      generation: 0,
      nonce: random.toString("latin1", ID_BYTES),
      text: message.text,
    };
    await this.#engine.commit(writeOfNewMessage(partition, version, stored));
    this.#counter.added(partition);
    return stored;
  }

  /**
   * Receives up to `max` visible messages and hides them for `visibilityTimeoutMs`, all in one commit. Empty
   * only when no message is visible, except those that other callers are receiving at this moment.
   * @throws ServiceError QueueNotFound
   */
  async receive(
    queue: QueueName,
    { max, visibilityTimeoutMs }: { readonly max: number; readonly visibilityTimeoutMs: number },
  ): Promise<readonly Message[]> {
    let open = await this.#openOrRemembered(queue);
    const time = new CallTime(this.#options.clock);
    let most = max;
    for (let lost = 0, stale = 0; ; time.assertLeft()) {
      const places = await this.#dispenser.claim(open.partition, { max: most, lost });
      try {
        const read = await this.#readMessages(open, places);
        if (read === undefined) {
          open = await this.#open(queue);
          continue;
        }
        if (places.length === 0) return [];
        const now = this.#options.clock.now();
        const alive = read.filter(({ message }) => message.expiresAt > now);
        // All places are stale: their messages changed between the search and the read.
        if (alive.length === 0) {
          assert(++stale < STALE_MAX, "Ready keys point to missing messages.");
          continue;
        }
        const change = new MessagesChange(open.partition, this.#engine.nextVersion());
        const received: Message[] = [];
        for (const { message, version } of alive) {
          const after = {
            ...message,
            visibleAt: now + visibilityTimeoutMs,
            dequeueCount: message.dequeueCount + 1,
            ...this.#nextReceipt(message),
          };
          change.replace(message, version, after);
          received.push(after);
        }
        const result = await this.#engine.commit(change.toWrite());
        if (result.committed) return received;
        lost++;
      } catch (error) {
        // On a disk that is nearly full one message still fits where 32 do not: its consumer can then delete it.
        const isRefused = error instanceof EngineError && error.code === "Unavailable";
        if (!isRefused || places.length <= 1) throw error;
        most = 1;
      } finally {
        this.#dispenser.giveBack(places);
      }
    }
  }

  /**
   * Returns up to `max` visible messages without changing them.
   * @throws ServiceError QueueNotFound
   */
  async peek(queue: QueueName, max: number): Promise<readonly Message[]> {
    let open = await this.#openOrRemembered(queue);
    for (const time = new CallTime(this.#options.clock); ; time.assertLeft()) {
      const { partition } = open;
      const now = this.#options.clock.now();
      const places = await this.#visible.find({ partition, now, max, take: () => true });
      const read = await this.#readMessages(open, places);
      if (read === undefined) open = await this.#open(queue);
      else if (read.length > 0 || places.length === 0) return read.map(({ message }) => message);
    }
  }

  /**
   * Hides a held message for `visibilityTimeoutMs` from now, and replaces its text if one is given.
   * @throws ServiceError QueueNotFound, MessageNotFound, or InvalidQueryParameterValue when the message would
   * expire before it became visible again.
   */
  update(
    queue: QueueName,
    held: HeldMessage,
    {
      visibilityTimeoutMs,
      text,
    }: { readonly visibilityTimeoutMs: number; readonly text: Uint8Array | undefined },
  ): Promise<Message> {
    return this.#change(queue, held, (message, version, now, change) => {
      const visibleAt = now + visibilityTimeoutMs;
      if (visibleAt > message.expiresAt) {
        const reason = "The message expires before it would be visible again.";
        throw invalidParameter("visibilitytimeout", String(visibilityTimeoutMs / 1000), reason);
      }
      const updated: Message = {
        ...message,
        visibleAt,
        ...this.#nextReceipt(message),
        text: text ?? message.text,
      };
      change.replace(message, version, updated);
      return updated;
    });
  }

  /**
   * Deletes a held message.
   * @throws ServiceError QueueNotFound, MessageNotFound
   */
  async delete(queue: QueueName, held: HeldMessage): Promise<void> {
    await this.#change(queue, held, (message, version, _, change) => {
      change.delete(message, version);
      return message;
    });
  }

  /**
   * The number of unexpired messages, including hidden ones; see `MessageCounter`.
   * @throws ServiceError QueueNotFound
   */
  async count(queue: QueueName): Promise<number> {
    return this.#counter.count((await this.#open(queue)).partition);
  }

  /** Changes one message for the holder of its receipt, in one commit on the record as just read. */
  async #change(
    queue: QueueName,
    { id, receipt }: HeldMessage,
    apply: (message: Message, version: number, now: number, change: MessagesChange) => Message,
  ): Promise<Message> {
    if (receipt instanceof ServiceError) {
      await this.#open(queue);
      throw receipt;
    }
    let open = await this.#openOrRemembered(queue);
    for (const time = new CallTime(this.#options.clock); ; time.assertLeft()) {
      const { named, partition } = open;
      const keys = id ? [recordKey(partition, { expiresAt: receipt.expiresAt, id })] : [];
      const [entry, record] = await this.#engine.get([named.key, ...keys]);
      if (!this.#options.catalog.isCurrent(named, entry)) {
        open = await this.#open(queue);
        continue;
      }
      const now = this.#options.clock.now();
      const message = record && decodeMessage(record);
      if (!message || message.expiresAt <= now || !isPresentReceipt(receipt, message)) {
        throw new ServiceError("MessageNotFound");
      }
      const change = new MessagesChange(partition, this.#engine.nextVersion());
      const changed = apply(message, record.version, now, change);
      const result = await this.#engine.commit(change.toWrite());
      if (result.committed) return changed;
    }
  }

  /**
   * The messages still at the places where they were found, read in one snapshot with the queue's catalog
   * entry.
   * @returns undefined when the queue has changed since it was opened
   */
  #readMessages(
    { named, partition }: OpenQueue,
    places: readonly ReadyPlace[],
  ): Awaitable<{ message: Message; version: number }[] | undefined> {
    const keys = places.map((place) => recordKey(partition, place));
    return whenReady(this.#engine.get([named.key, ...keys]), ([entry, ...records]) => {
      if (!this.#options.catalog.isCurrent(named, entry)) return undefined;
      return records.flatMap((record, i) =>
        record && isAt(places[i]!, record)
          ? [{ message: decodeMessage(record), version: record.version }]
          : [],
      );
    });
  }

  #nextReceipt({ generation }: Message): Pick<Message, "generation" | "nonce"> {
    return {
      generation: (generation + 1) % 256,
      nonce: this.#options.randomBytes(NONCE_BYTES).toString("latin1"),
    };
  }

  /** The remembered queue, if any, for callers that check its catalog entry again as they read. */
  #openOrRemembered(queue: QueueName): Awaitable<OpenQueue> {
    const named = this.#options.catalog.remembered(queue.account, queue.name);
    return named ? this.#opened(queue, named) : this.#open(queue);
  }

  /** @throws ServiceError QueueNotFound */
  #open(queue: QueueName): Awaitable<OpenQueue> {
    return whenReady(this.#options.catalog.find(queue.account, queue.name), (named) => {
      if (!named) throw new ServiceError("QueueNotFound");
      return this.#opened(queue, named);
    });
  }

  #opened({ account }: QueueName, named: Named<QueueValue>): OpenQueue {
    let partition = this.#partitions.get(named);
    if (!partition) {
      partition = queuePartition(this.#options.catalog.accountId(account), named.id);
      this.#partitions.set(named, partition);
    }
    return { named, partition };
  }
}

/** So many stale searches in a row are no coincidence: the two keys of some message do not match. */
const STALE_MAX = 1000;

function isAt(place: ReadyPlace, record: Entry): boolean {
  const present = readPlace(record);
  return present.visibleAt === place.visibleAt && present.sequence === place.sequence;
}
