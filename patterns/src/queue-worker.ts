import type { Database } from "./database.ts";
import { assertBetween, assertSome, isTableError, tableError, validationFailed } from "./errors.ts";
import { excessOf, parseMessage, withBody } from "./messages/large-message.ts";
import { HIDDEN_MS_MAX, type Message } from "./messages/message.ts";
import { assertNames } from "./model/storage-name.ts";
import { isRefusal, unlessRefused } from "./ports/port-error.ts";
import type { MessageReceipt, QueuesPort, ReceivedMessage } from "./ports/queues.ts";
import { unlessAborted } from "./store/clock.ts";
import { blobsOf, queuesOf } from "./store/connected-ports.ts";

export { type SendMessageOptions, sendMessage } from "./messages/large-message.ts";
export type { Message, NewMessage } from "./messages/message.ts";

/** Handles the messages of one kind. A message may arrive more than once, so the handler must be idempotent. */
export interface Handler {
  readonly kind: string;
  /** Resolves with `later(…)` when it is too early, and with anything else when the message is done. */
  handle(message: Message, context: HandlerContext): Promise<unknown>;
}

export interface HandlerContext {
  /** Usable as long as the message is ours: after that it sends no request. */
  readonly database: Database;
  /** Aborted when the message is no longer ours, or the worker must stop. */
  readonly signal: AbortSignal;
}

/** A failure that a retry cannot fix: the message goes to the poison queue at once. */
export class Fatal extends Error {
  override readonly name = "Fatal";
}

/** Not a failure: this message is done, and a new copy arrives after this time. */
export class Later {
  readonly ms: number;

  /** @throws validation-failed for more than 7 days. */
  constructor(ms: number) {
    assertBetween("The message", { later: ms }, 0, HIDDEN_MS_MAX);
    this.ms = ms;
  }
}

/** What a handler resolves with when it is too early. @throws validation-failed for more than 7 days. */
export function later(ms: number): Later {
  return new Later(ms);
}

export interface WorkerOptions {
  /** One queue, or several that share the handlers and the concurrency. */
  readonly queue: string | readonly string[];
  readonly handlers: readonly Handler[];
  /** Messages handled in parallel. Default: 4. */
  readonly concurrency?: number;
  /** Messages received with one request, at most 32. Default: as many as may run. */
  readonly batch?: number;
  /** How long a message is hidden from other workers; renewed after `renewAt` of it. Default: a minute. */
  readonly visibilityMs?: number;
  /** From 0.01 to 0.99. Default: half. */
  readonly renewAt?: number;
  /** A message whose delivery of this number fails is poison. Default: 5. */
  readonly maxDequeue?: number;
  /** For a single queue. Default: `<queue>-poison`. */
  readonly poisonQueue?: string;
  /** How long handlers may continue after a stop. Default: 30 seconds. */
  readonly drainTimeoutMs?: number;
  /** Called once the message is deleted because its handler succeeded. */
  readonly onDone?: (message: Message) => void;
  /**
   * Called with what a handler threw, and with poison-message, caused by that error, once the message is in the
   * poison queue. The message is undefined for text that is not one of our messages. Default: the error is
   * reported to `onEvent` of `connect`.
   */
  readonly onFailure?: (message: Message | undefined, error: unknown) => void;
}

/**
 * A worker: `run` keeps it working, `drain` handles what is visible now. Sends no request.
 * @throws validation-failed for an invalid queue name or number; unsupported-by-profile without queues.
 */
export function createWorker(database: Database, options: WorkerOptions): Worker {
  return new Worker(database, options);
}

const VISIBILITY_MS = 60_000;
const RENEW_AT_MIN = 0.01;
const RENEW_AT_MAX = 0.99;
const CONCURRENCY = 4;
const RECEIVE_MAX = 32;
const DEQUEUE_MAX = 5;
const DRAIN_MS = 30_000;
const IDLE_MIN_MS = 100;
const IDLE_MAX_MS = 30_000;
/** Services count timeouts in whole seconds. */
const TIMEOUT_MIN_MS = 1000;
const RETRY_MS = [2000, 4000, 10_000, 30_000];

/** A message being handled. Its receipt changes whenever its lease is renewed. */
interface Job {
  readonly queue: string;
  receipt: MessageReceipt;
  /** Until then no other worker receives the message. */
  oursUntilMs: number;
  /** The renewal in flight: whether the message is still ours. */
  prolonged: Promise<boolean> | undefined;
  readonly lost: AbortController;
  /** Whether its handler succeeded. */
  readonly done: Promise<boolean>;
}

/**
 * Receives messages from its queues and passes them to their handlers. A message is deleted when its handler
 * succeeds, becomes visible again when it fails, and goes to the poison queue when it has failed too often. If
 * the process crashes, its messages reappear on their own.
 */
export class Worker {
  readonly #database: Database;
  readonly #options: WorkerOptions;
  readonly #queues: QueuesPort;
  /** Each queue with its poison queue. */
  readonly #poisonQueues: ReadonlyMap<string, string>;
  readonly #jobs = new Set<Job>();
  #turn = 0;

  constructor(database: Database, options: WorkerOptions) {
    this.#database = database;
    this.#options = options;
    this.#queues = queuesOf(database);
    const { queue, poisonQueue } = options;
    const names = typeof queue === "string" ? [queue] : queue;
    if (names.length === 0 || (poisonQueue && names.length > 1)) {
      const message = "name one queue, or several without a poisonQueue";
      throw validationFailed("The worker", "queue", message);
    }
    this.#poisonQueues = new Map(names.map((name) => [name, poisonQueue ?? `${name}-poison`]));
    for (const [name, poison] of this.#poisonQueues) {
      assertNames("The worker", { queue: name, poisonQueue: poison });
    }
    const { concurrency = 1, batch = 1, maxDequeue = 1 } = options;
    assertSome("The worker", { concurrency, batch, maxDequeue });
    const {
      visibilityMs = VISIBILITY_MS,
      renewAt = RENEW_AT_MAX,
      drainTimeoutMs = DRAIN_MS,
    } = options;
    assertBetween("The worker", { visibilityMs }, 1, HIDDEN_MS_MAX);
    // At 0 a message would be renewed without end, at 1 too late.
    assertBetween("The worker", { renewAt }, RENEW_AT_MIN, RENEW_AT_MAX);
    assertBetween("The worker", { drainTimeoutMs }, 0);
  }

  /** Its queues and their poison queues, for `db.provision`. */
  get queues(): readonly string[] {
    return [...this.#poisonQueues].flat();
  }

  /** Works until the signal is aborted: then it receives no more messages and ends those being handled. */
  async run({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    const database = this.#database.until(signal);
    const { clock, random } = database;
    const { concurrency = CONCURRENCY } = this.#options;
    await this.createQueues();
    for (let idleMs = IDLE_MIN_MS; !signal.aborted; ) {
      let started = 0;
      for (const queue of this.#inTurn()) {
        const free = concurrency - this.#jobs.size;
        if (free <= 0) break;
        const received = this.#receive(queue, free, queuesOf(database), signal);
        started += await received.catch((error) => {
          database.report({ kind: "background failure", what: `receiving from ${queue}`, error });
          return 0;
        });
      }
      if (started > 0) idleMs = IDLE_MIN_MS;
      if (started > 0 && this.#jobs.size < concurrency) continue;
      let goOn = () => {};
      const stopped = unlessAborted((done) => {
        goOn = done;
        return done;
      }, signal);
      const isFull = this.#jobs.size >= concurrency;
      const idle = isFull ? [] : [clock.sleep(idleMs * (0.5 + random()))];
      if (started === 0) idleMs = Math.min(IDLE_MAX_MS, idleMs * 2);
      const jobs = Array.from(this.#jobs, ({ done }) => done);
      await Promise.race([stopped, ...idle, ...jobs]).catch(() => undefined);
      goOn();
      // In memory nothing above waits for timers or sockets, and so for whatever aborts the signal.
      if (started === 0) await new Promise((resolve) => setTimeout(resolve));
    }
    await this.#stop();
  }

  /**
   * Handles visible messages until none is left, or until the signal is aborted.
   * @returns the number of messages whose handler succeeded.
   * @throws the reason it cannot receive, such as a missing queue.
   */
  async drain({ signal }: { readonly signal?: AbortSignal } = {}): Promise<number> {
    const { concurrency = CONCURRENCY } = this.#options;
    for (let count = 0; ; ) {
      let started = 0;
      for (const queue of this.#inTurn()) {
        if (signal?.aborted) break;
        started += await this.#receive(queue, concurrency, this.#queues, signal);
        const done = await Promise.all(Array.from(this.#jobs, (job) => job.done));
        count += done.filter(Boolean).length;
      }
      if (started === 0) return count;
    }
  }

  /** Creates its queues and poison queues; existing ones are left as they are. 2 R for each queue. */
  async createQueues(): Promise<void> {
    await Promise.all(this.queues.map((queue) => this.#queues.createQueue(queue)));
  }

  /** The queues, beginning with another each time, so that a busy one does not starve the others. */
  #inTurn(): readonly string[] {
    const queues = [...this.#poisonQueues.keys()];
    const first = this.#turn++ % queues.length;
    return [...queues.slice(first), ...queues.slice(0, first)];
  }

  /** Messages in each poison queue, with their failures; they stay there. */
  async peekPoison(max = RECEIVE_MAX): Promise<(Message | undefined)[]> {
    assertSome("The worker", { max }, validationFailed, RECEIVE_MAX);
    const poison = [...this.#poisonQueues.values()];
    const messages = await Promise.all(poison.map((queue) => this.#queues.peek(queue, max)));
    return messages.flat().map(({ text }) => parseMessage(text));
  }

  /** Sends the messages now in the poison queues, or `max` of them, back to work. @returns how many. */
  async redrive(max = Number.POSITIVE_INFINITY): Promise<number> {
    let count = 0;
    for (const [queue, poison] of this.#poisonQueues) {
      count += await this.#redrive(queue, poison, max - count);
    }
    return count;
  }

  async #redrive(queue: string, poisonQueue: string, max: number): Promise<number> {
    // Messages that fail again meanwhile return to the poison queue. Within one second, their ids identify
    // them.
    let begunAt = Number.POSITIVE_INFINITY;
    const sent = new Set<string>();
    const newer: ReceivedMessage[] = [];
    for (let count = 0; ; ) {
      const most = Math.min(RECEIVE_MAX, max - count);
      const wanted = { max: most, visibilityMs: VISIBILITY_MS };
      const messages = most > 0 ? await this.#queues.receive(poisonQueue, wanted) : [];
      if (messages.length === 0) {
        for (const one of newer) await this.#show(poisonQueue, one);
        return count;
      }
      for (const received of messages) {
        const message = parseMessage(received.text);
        const text = message ? unfailed(message) : received.text;
        const id = message?.id ?? text;
        const since = Number(received.insertedAt) - begunAt;
        if (since > 0 || (since === 0 && sent.has(id))) {
          newer.push(received);
          continue;
        }
        const { insertedAt } = await this.#queues.send(queue, text);
        begunAt = Math.min(begunAt, Number(insertedAt));
        sent.add(id);
        await this.#queues.delete(poisonQueue, received);
        count++;
      }
    }
  }

  /** A message that we kept hidden for too long may belong to another receiver by now; its refusal is ignored. */
  #show(poisonQueue: string, received: ReceivedMessage) {
    const shown = this.#queues.update(poisonQueue, received, { visibilityMs: 0 });
    return unlessRefused(shown, 400, 404);
  }

  async #receive(
    queue: string,
    free: number,
    queues: QueuesPort,
    signal?: AbortSignal,
  ): Promise<number> {
    const { batch = RECEIVE_MAX, visibilityMs = VISIBILITY_MS } = this.#options;
    try {
      const max = Math.min(free, batch, RECEIVE_MAX);
      const oursUntilMs = this.#database.clock.now() + visibilityMs;
      const messages = await queues.receive(queue, { max, visibilityMs });
      for (const message of messages) this.#start(queue, message, oursUntilMs);
      return messages.length;
    } catch (error) {
      if (signal?.aborted) return 0;
      throw error;
    }
  }

  #start(queue: string, received: ReceivedMessage, oursUntilMs: number): void {
    const lost = new AbortController();
    const job: Job = {
      queue,
      receipt: received,
      oursUntilMs,
      prolonged: undefined,
      lost,
      done: Promise.resolve()
        .then(() => this.#handle(received, job))
        .catch((error) => {
          const what = `handling message ${received.id}`;
          this.#database.report({ kind: "background failure", what, error });
          return false;
        })
        .finally(() => this.#jobs.delete(job)),
    };
    this.#jobs.add(job);
  }

  /** @returns whether the handler succeeded. */
  async #handle(received: ReceivedMessage, job: Job): Promise<boolean> {
    const { handlers, maxDequeue = DEQUEUE_MAX } = this.#options;
    const message = parseMessage(received.text);
    const handler = handlers.find(({ kind }) => kind === message?.kind);
    if (!message || !handler) {
      const why = message
        ? `no handler for ${message.kind}`
        : "it is not a message of this library";
      return this.#poison(received, job, message, why);
    }
    if (received.dequeueCount > maxDequeue) {
      return this.#poison(received, job, message, message.failure?.error ?? "no attempt finished");
    }
    const result = await this.#try(handler, message, job);
    if (job.lost.signal.aborted) return false;
    if ("outcome" in result) {
      await this.#finish(message, job, result.outcome);
      return true;
    }
    const { error } = result;
    const isHopeless = error instanceof Fatal || isTableError(error, "validation-failed");
    if (isHopeless || received.dequeueCount >= maxDequeue) {
      return this.#poison(received, job, message, printed(error), error);
    }
    this.#failure(job.queue, message, error);
    const visibilityMs = RETRY_MS[Math.min(received.dequeueCount, RETRY_MS.length) - 1]!;
    const text = JSON.stringify(this.#failed(message, received, printed(error)));
    await this.#update(job, { visibilityMs, text });
    return false;
  }

  #failure(queue: string, message: Message | undefined, error: unknown): void {
    const { onFailure } = this.#options;
    const what = `handling ${message ? `message ${message.id}` : "a message"} of ${queue}`;
    if (onFailure) onFailure(message, error);
    else this.#database.report({ kind: "background failure", what, error });
  }

  /** The result of the handler for the message, which stays hidden meanwhile. */
  async #try(
    handler: Handler,
    message: Message,
    job: Job,
  ): Promise<{ readonly outcome: unknown } | { readonly error: unknown }> {
    const { signal } = job.lost;
    const finished = new AbortController();
    const renewal = this.#renew(job, AbortSignal.any([finished.signal, signal]));
    try {
      const whole = await withBody(this.#database, message);
      // What the handler read may be out of date once another worker has had the message.
      const database = this.#database
        .until(signal)
        .inTime(() => this.#oursUntilMs(job, finished.signal));
      const context = { database, signal };
      return { outcome: await handler.handle(whole, context) };
    } catch (error) {
      return { error };
    } finally {
      finished.abort();
      await Promise.allSettled([renewal, job.prolonged]);
    }
  }

  async #finish(message: Message, job: Job, outcome: unknown): Promise<void> {
    const { onDone } = this.#options;
    const { queue } = job;
    if (outcome instanceof Later) {
      // A new message: hiding this one again would bring it closer to the poison queue.
      await this.#queues.send(queue, unfailed(message), { delayMs: outcome.ms });
      await this.#queues.delete(queue, job.receipt);
      return;
    }
    const isDeleted = await this.#queues.delete(queue, job.receipt);
    const { blob } = message;
    // Another worker that has the message now needs its body. While the message is ours, it can only be gone
    // because an earlier attempt of this request deleted it.
    const isOurs = isDeleted || this.#database.clock.now() < job.oursUntilMs;
    if (blob && isOurs) await blobsOf(this.#database).delete(blob.container, blob.name);
    onDone?.(message);
  }

  /** Keeps the message hidden while it is handled. */
  async #renew(job: Job, finished: AbortSignal): Promise<void> {
    const { visibilityMs = VISIBILITY_MS, renewAt = 0.5 } = this.#options;
    try {
      while (!finished.aborted) {
        await this.#database.clock.alarm(visibilityMs * renewAt, finished);
        if (!(await this.#prolong(job))) return;
      }
    } catch (error) {
      if (!finished.aborted) job.lost.abort(error);
    }
  }

  /**
   * A worker that was suspended and missed its alarm may still have the message. It renews the lease when less
   * is left than the shortest timeout of a request, or more than is possible unless the clock was set back.
   * Work that a handler leaves running after its end renews nothing. @throws the reason that the message is
   * lost.
   */
  async #oursUntilMs(job: Job, finished: AbortSignal): Promise<number> {
    const { visibilityMs = VISIBILITY_MS } = this.#options;
    const leftMs = job.oursUntilMs - this.#database.clock.now();
    const isSure = leftMs >= TIMEOUT_MIN_MS && leftMs <= visibilityMs;
    if (!isSure && !finished.aborted) await this.#prolong(job);
    job.lost.signal.throwIfAborted();
    return job.oursUntilMs;
  }

  /** One request for all callers that wait for it, since each request invalidates the receipt before. */
  #prolong(job: Job): Promise<boolean> {
    const { visibilityMs = VISIBILITY_MS } = this.#options;
    job.prolonged ??= this.#update(job, { visibilityMs }).finally(() => {
      job.prolonged = undefined;
    });
    return job.prolonged;
  }

  /** False when the lease is gone: another worker has the message now. */
  async #update(
    job: Job,
    change: { readonly visibilityMs: number; readonly text?: string },
  ): Promise<boolean> {
    try {
      const oursUntilMs = this.#database.clock.now() + change.visibilityMs;
      job.receipt = await this.#queues.update(job.queue, job.receipt, change);
      job.oursUntilMs = oursUntilMs;
      return true;
    } catch (error) {
      if (!isRefusal(error, 400, 404)) throw error;
      // Not the 404 itself, which a request of the handler would reject with as if its entity were gone.
      const { id } = job.receipt;
      const lost = `Message ${id} went to another worker or was deleted.`;
      const remedy = "lengthen visibilityMs if handlers take longer.";
      job.lost.abort(tableError("conflict", lost, { key: id }, { cause: error, remedy }));
      return false;
    }
  }

  /** A crash between the two requests leaves the message in both queues, with the same id. */
  async #poison(
    received: ReceivedMessage,
    job: Job,
    message: Message | undefined,
    why: string,
    cause?: unknown,
  ): Promise<false> {
    const { queue } = job;
    const poisonQueue = this.#poisonQueues.get(queue)!;
    const text = message ? JSON.stringify(this.#failed(message, received, why)) : received.text;
    await this.#queues.send(poisonQueue, text);
    await this.#queues.delete(queue, job.receipt);
    const { id } = message ?? received;
    const payload = { queue, id, dequeueCount: received.dequeueCount };
    const said = `Message ${id} of ${queue} was moved to ${poisonQueue}: ${why}.`;
    const remedy = "fix the cause, then redrive it.";
    this.#failure(queue, message, tableError("poison-message", said, payload, { cause, remedy }));
    return false;
  }

  /** The message with as much of the error as fits into a queue. */
  #failed(message: Message, { dequeueCount }: ReceivedMessage, error: string): Message {
    const at = new Date(this.#database.clock.now()).toISOString();
    const failed = (error: string) => ({ ...message, failure: { error, dequeueCount, at } });
    const excess = excessOf(failed(error));
    if (excess <= 0) return failed(error);
    // Half a surrogate pair takes three bytes more than nothing.
    return excess <= error.length ? failed(error.slice(0, -excess - 3)) : message;
  }

  async #stop(): Promise<void> {
    const { drainTimeoutMs = DRAIN_MS } = this.#options;
    const ended = new AbortController();
    const jobs = [...this.#jobs];
    const patience = this.#database.clock.alarm(drainTimeoutMs, ended.signal);
    await Promise.race([Promise.all(jobs.map(({ done }) => done)), patience]);
    ended.abort();
    await patience.catch(() => undefined);
    // Other workers may receive them immediately.
    await Promise.all(
      [...this.#jobs].map(async (job) => {
        job.lost.abort(new Error("The worker is stopping."));
        await this.#update(job, { visibilityMs: 0 });
      }),
    );
  }
}

/** The message as it was first sent, without its failure. */
function unfailed(message: Message): string {
  return JSON.stringify({ ...message, failure: undefined });
}

function printed(error: unknown): string {
  return (error instanceof Error ? `${error.name}: ${error.message}` : String(error)).slice(
    0,
    2000,
  );
}
