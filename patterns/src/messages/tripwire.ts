import type { Database } from "../database.ts";
import type { Change } from "../model/follower.ts";
import type { QueuesPort } from "../ports/queues.ts";
import { queuesOf } from "../store/connected-ports.ts";
import { messageOf, type NewMessage } from "./message.ts";

/**
 * A message sent before the first step of a write, invisible for longer than the write may take. When
 * all is done it is taken back; when the writer dies it fires, and a worker does the rest.
 */
export class Tripwire {
  /** When it was about to be sent, from which its delay counts at the least. */
  readonly sinceMs: number;
  readonly #queue: string;
  readonly #queues: QueuesPort;
  readonly #sent: ReturnType<QueuesPort["send"]>;
  #fired: Promise<unknown> | undefined;
  #users = 0;
  #isClean = true;

  private constructor(
    sinceMs: number,
    queues: QueuesPort,
    queue: string,
    sent: ReturnType<QueuesPort["send"]>,
  ) {
    this.sinceMs = sinceMs;
    this.#queues = queues;
    this.#queue = queue;
    this.#sent = sent;
  }

  /** One for all followers of the change that send this kind here, as late as this. Resolves when it is sent. */
  static async across(
    database: Database,
    change: Change,
    {
      queue,
      kind,
      delayMs,
    }: { readonly queue: string; readonly kind: string; readonly delayMs: number },
    content: () => Pick<NewMessage, "key" | "body">,
  ): Promise<Tripwire> {
    const id = `${kind} in ${queue} after ${delayMs}`;
    const known = change.shared.get(id);
    let wire = known instanceof Tripwire ? known : undefined;
    if (!wire) {
      const queues = queuesOf(database);
      const text = JSON.stringify(messageOf(database, { kind, ...content() }));
      const sinceMs = database.clock.now();
      wire = new Tripwire(sinceMs, queues, queue, queues.send(queue, text, { delayMs }));
      change.shared.set(id, wire);
    }
    wire.#users++;
    await wire.#sent;
    return wire;
  }

  /** The last one to be done takes the message back, unless somebody left work for it. */
  async done(isClean: boolean): Promise<void> {
    this.#isClean &&= isClean;
    if (--this.#users > 0 || !this.#isClean) return;
    await this.#queues.delete(this.#queue, await this.#sent);
  }

  /** Lets the message be seen now; once is enough. */
  fire(): Promise<unknown> {
    this.#fired ??= this.#sent.then((sent) =>
      this.#queues.update(this.#queue, sent, { visibilityMs: 0 }),
    );
    return this.#fired;
  }
}
