import type { Change } from "../model/follower.ts";
import type { QueuesPort } from "../ports/queues.ts";
import { queuesOf } from "../store/connected-ports.ts";
import type { Session } from "../store/session.ts";
import { messageOf, type NewMessage } from "./message.ts";

/**
 * A message sent before the first step of a write, hidden for longer than the write may take. When the write is
 * complete the message is deleted; when the writer crashes it fires, and a worker completes the write.
 */
export class Tripwire {
  /** The time just before it was sent. Its delay ends no earlier than counted from here. */
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

  /** One for all followers of the change with the same kind, queue and delay. Resolves when it is sent. */
  static async sharedBy(
    session: Session,
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
      const queues = queuesOf(session);
      const text = JSON.stringify(messageOf(session, { kind, ...content() }));
      const sinceMs = session.clock.now();
      wire = new Tripwire(sinceMs, queues, queue, queues.send(queue, text, { delayMs }));
      change.shared.set(id, wire);
    }
    wire.#users++;
    await wire.#sent;
    return wire;
  }

  /** The last user deletes the message, unless one of them left work for it. */
  async done(isClean: boolean): Promise<void> {
    this.#isClean &&= isClean;
    if (--this.#users > 0 || !this.#isClean) return;
    await this.#queues.delete(this.#queue, await this.#sent);
  }

  /** Makes the message visible now. Repeated calls send no further request. */
  fire(): Promise<unknown> {
    this.#fired ??= this.#sent.then((sent) =>
      this.#queues.update(this.#queue, sent, { visibilityMs: 0 }),
    );
    return this.#fired;
  }
}
