import assert from "node:assert/strict";
import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import { ServiceError } from "@rowhouse/protocol/errors";
import { type Awaitable, whenReady } from "../awaitable.ts";
import type { Catalog, Named } from "../catalog/catalog.ts";
import type { Clock } from "../clock.ts";
import { CallTime } from "../engine/call-time.ts";
import type { Engine, Entry } from "../engine/engine.ts";
import type { Metadata } from "../http/metadata.ts";
import { invalidParameter } from "../http/query-parameters.ts";
import { Dispenser } from "./dispenser.ts";
import { MessageCounter } from "./message-counter.ts";
import { toMessageId } from "./message-id.ts";
import { ID_BYTES, queuePartition, type ReadyPlace, recordKey } from "./message-keys.ts";
import { decodeMessage, type Message, NONCE_BYTES, readPlace } from "./message-record.ts";
import { MessagesChange, writeOfNewMessage } from "./messages-change.ts";
import { isPresentReceipt, type PopReceipt } from "./pop-receipt.ts";
import { VisibleMessages } from "./visible-messages.ts";

/** What the catalog keeps of a queue. */
export interface QueueValue {
  readonly metadata: Metadata;
  readonly policies: readonly AccessPolicy[];
}

export interface QueueName {
  readonly account: string;
  readonly name: string;
}

/** What a consumer shows to change a message. */
export interface Hold {
  /** Undefined for what is no message id at all. */
  readonly id: string | undefined;
  readonly receipt: PopReceipt;
}

export interface MessageStoreOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly catalog: Catalog<QueueValue>;
  /** Unguessable: message ids and pop receipts are made of them. */
  readonly randomBytes: (count: number) => Buffer;
  /** Called when expired messages get in the way of receiving. */
  readonly onManyExpired: () => void;
}

/** 9999-12-31T23:59:59Z, which stands for never. */
export const NEVER = Date.UTC(9999, 11, 31, 23, 59, 59);

/** A queue as the store uses it: its catalog entry, and the partition that holds its messages. */
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
 *                   visibleAt comes, update(0)
 *
 *   either ── delete, clear, expiresAt comes ──▶ gone
 *
 * No timer moves anything: a message is visible from `visibleAt` to `expiresAt` by the clock of
 * whoever looks, and gone from then on. What the sweeper frees later was gone already.
 *
 * Put, receive and update each issue a pop receipt, and update and delete take the one issued last:
 * even when the message is visible again, until somebody receives it.
 *
 * Every change is one commit that checks the version of the record, so of two that meet one is
 * first and the other looks again: no two consumers hold a message at once, and what was deleted
 * stays so. The `Dispenser` keeps receivers from racing for the same messages.
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
   * Adds a message that is hidden for `visibilityTimeoutMs` and expires after `timeToLiveMs`, which
   * may be infinite.
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
   * Hands out up to `max` visible messages and hides them for `visibilityTimeoutMs`: all of them, or none.
   * Empty only when nothing is visible but what others are just taking.
   * @throws ServiceError QueueNotFound
   */
  async receive(
    queue: QueueName,
    { max, visibilityTimeoutMs }: { readonly max: number; readonly visibilityTimeoutMs: number },
  ): Promise<readonly Message[]> {
    let open = await this.#openOrRemembered(queue);
    const time = new CallTime(this.#options.clock);
    for (let lost = 0, stale = 0; ; time.assertLeft()) {
      const places = await this.#dispenser.claim(open.partition, { max, lost });
      try {
        const read = await this.#readMessages(open, places);
        if (read === undefined) {
          open = await this.#open(queue);
          continue;
        }
        if (places.length === 0) return [];
        const now = this.#options.clock.now();
        const alive = read.filter(({ message }) => message.expiresAt > now);
        // Nothing is left of what was found: it went between the search and the read.
        if (alive.length === 0) {
          assert(++stale < STALE_MAX, "Ready keys lead to messages that are not there.");
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
      } finally {
        this.#dispenser.giveBack(places);
      }
    }
  }

  /**
   * Up to `max` visible messages, left as they are.
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
   * Hides a held message for `visibilityTimeoutMs` from now on, and replaces its text where one is given.
   * @throws ServiceError QueueNotFound, MessageNotFound, or InvalidQueryParameterValue when it
   * would be visible again only after its expiry.
   */
  update(
    queue: QueueName,
    hold: Hold,
    {
      visibilityTimeoutMs,
      text,
    }: { readonly visibilityTimeoutMs: number; readonly text: Uint8Array | undefined },
  ): Promise<Message> {
    return this.#change(queue, hold, (message, version, now, change) => {
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
   * Removes a held message for good.
   * @throws ServiceError QueueNotFound, MessageNotFound
   */
  async delete(queue: QueueName, hold: Hold): Promise<void> {
    await this.#change(queue, hold, (message, version, _, change) => {
      change.delete(message, version);
      return message;
    });
  }

  /**
   * How many messages have not expired, hidden ones too; see `MessageCounter`.
   * @throws ServiceError QueueNotFound
   */
  async count(queue: QueueName): Promise<number> {
    return this.#counter.count((await this.#open(queue)).partition);
  }

  /** Changes one message for whoever holds it, in one commit, on what it is at that moment. */
  async #change(
    queue: QueueName,
    { id, receipt }: Hold,
    apply: (message: Message, version: number, now: number, change: MessagesChange) => Message,
  ): Promise<Message> {
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
   * The messages that are still where they were found, in one snapshot with the queue.
   * @returns undefined when the queue is not what it was
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

  /** What was last known of a queue, for reads that look at its catalog entry again. */
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

/** So often in a row nobody can be late; then the two keys of some message do not match. */
const STALE_MAX = 1000;

function isAt(place: ReadyPlace, record: Entry): boolean {
  const present = readPlace(record);
  return present.visibleAt === place.visibleAt && present.sequence === place.sequence;
}
