import cluster, { type Worker } from "node:cluster";

/**
 * What the workers tell each other, through the primary: one asks (`gather`) for a subject, and what `about` it, the primary asks all
 * (`wanted`), each answers with its own part (`part`), and the asker gets all of them (`gathered`). Ids are the
 * asker's. A worker that closes leaves its last part of a subject with the primary (`last`).
 */
type Gathering =
  | { readonly gather: number; readonly of: string; readonly about: string }
  | { readonly wanted: string; readonly of: string; readonly about: string }
  | { readonly part: string; readonly value: unknown }
  | { readonly gathered: number; readonly values: readonly unknown[] }
  | { readonly last: string; readonly value: unknown };

/** A worker that does not answer within this time, because it is busy or dying, is left out. */
const ANSWER_MS = 2000;

/** In the primary: passes requests for parts on to all workers, and their parts back to the one that asked. */
export class PartsExchange {
  readonly #open = new Map<string, Collected>();
  readonly #lasts = new Map<string, unknown[]>();

  /** Handles a message of a worker; ignores those of other kinds. */
  receive(worker: Worker, message: Gathering): void {
    if (!isObject(message)) return;
    if ("gather" in message) this.#ask(worker, message);
    else if ("part" in message) this.#open.get(message.part)?.add(message.value);
    else if ("last" in message) {
      const known = this.#lasts.get(message.last);
      if (known) known.push(message.value);
      else this.#lasts.set(message.last, [message.value]);
    }
  }

  /** What the workers that closed have left of a subject. A worker that was killed left nothing. */
  lastParts(subject: string): readonly unknown[] {
    return this.#lasts.get(subject) ?? [];
  }

  #ask(
    asker: Worker,
    { gather: id, of, about }: Extract<Gathering, { readonly gather: number }>,
  ): void {
    const wanted = `${asker.id}:${id}`;
    const all = Object.values(cluster.workers ?? {}).filter((each) => each?.isConnected());
    const done = (values: readonly unknown[]) => {
      this.#open.delete(wanted);
      if (asker.isConnected()) asker.send({ gathered: id, values } satisfies Gathering);
    };
    this.#open.set(wanted, new Collected(all.length, done));
    for (const each of all) each?.send({ wanted, of, about } satisfies Gathering);
  }
}

class Collected {
  readonly #values: unknown[] = [];
  readonly #count: number;
  readonly #done: (values: readonly unknown[]) => void;
  readonly #timer: NodeJS.Timeout;

  constructor(count: number, done: (values: readonly unknown[]) => void) {
    this.#count = count;
    this.#done = done;
    this.#timer = setTimeout(() => done(this.#values), ANSWER_MS).unref();
  }

  add(value: unknown): void {
    this.#values.push(value);
    if (this.#values.length < this.#count) return;
    clearTimeout(this.#timer);
    this.#done(this.#values);
  }
}

const subjects = new Map<string, (about: string) => unknown>();
const waiting = new Map<number, (parts: readonly unknown[]) => void>();
let nextId = 0;

/**
 * In a process that serves: returns a function that gathers the parts of all processes over the same data, which is
 * only its own where there are no workers.
 * @param subject not used before in this process
 * @param own returns this process's part, of what the asker names: what JSON can express
 */
export function gathering<Part>(
  subject: string,
  own: (about: string) => Part | Promise<Part>,
): (about?: string) => Promise<readonly Part[]> {
  if (!cluster.isWorker) return async (about = "") => [await own(about)];
  if (subjects.size === 0) process.on("message", answerGathering);
  subjects.set(subject, own);
  return (about = "") =>
    new Promise((resolve) => {
      const id = nextId++;
      // The workers run the same program as this one, and so send the same kind of part.
      waiting.set(id, (parts) => resolve(parts as readonly Part[]));
      process.send?.({ gather: id, of: subject, about } satisfies Gathering);
    });
}

function answerGathering(message: Gathering): void {
  if (!isObject(message)) return;
  if ("wanted" in message) {
    const answer = (value: unknown) =>
      process.send?.({ part: message.wanted, value } satisfies Gathering);
    Promise.resolve(subjects.get(message.of)?.(message.about)).then(answer, () => {});
  } else if ("gathered" in message) {
    waiting.get(message.gathered)?.(message.values);
    waiting.delete(message.gathered);
  }
}

/** In a worker that closes: leaves its last part of a subject with the primary. */
export function leaveLastPart(subject: string, value: unknown): Promise<void> {
  const message: Gathering = { last: subject, value };
  // A primary that is gone has nobody to report to.
  return new Promise((resolve) => {
    if (process.send) process.send(message, () => resolve());
    else resolve();
  });
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
