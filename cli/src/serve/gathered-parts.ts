import cluster, { type Worker } from "node:cluster";

/**
 * What the workers tell each other, through the primary: one asks (`gather`), the primary asks all (`wanted`), each
 * answers with its own part (`part`), and the asker gets all of them (`gathered`). Ids are the asker's.
 */
type Gathering =
  | { readonly gather: number }
  | { readonly wanted: string }
  | { readonly part: string; readonly value: unknown }
  | { readonly gathered: number; readonly values: readonly unknown[] };

/** A worker that does not answer within this time, because it is busy or dying, is left out. */
const ANSWER_MS = 2000;

/** In the primary: passes requests for parts on to all workers, and their parts back to the one that asked. */
export class PartsExchange {
  readonly #open = new Map<string, Collected>();

  /** Handles a message of a worker; ignores those of other kinds. */
  receive(worker: Worker, message: unknown): void {
    if (!isObject(message)) return;
    if ("gather" in message && typeof message.gather === "number")
      this.#ask(worker, message.gather);
    else if ("part" in message && typeof message.part === "string" && "value" in message) {
      this.#open.get(message.part)?.add(message.value);
    }
  }

  #ask(asker: Worker, id: number): void {
    const key = `${asker.id}:${id}`;
    const all = Object.values(cluster.workers ?? {}).filter((each) => each?.isConnected());
    const done = (values: readonly unknown[]) => {
      this.#open.delete(key);
      if (asker.isConnected()) asker.send({ gathered: id, values } satisfies Gathering);
    };
    this.#open.set(key, new Collected(all.length, done));
    for (const each of all) each?.send({ wanted: key } satisfies Gathering);
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

/**
 * In a process that serves: returns a function that gathers the parts of all processes over the same data, which is
 * only its own where there are no workers.
 */
export function gathering<Part>(own: () => Promise<Part>): () => Promise<readonly Part[]> {
  if (!cluster.isWorker) return async () => [await own()];
  const waiting = new Map<number, (parts: readonly Part[]) => void>();
  let next = 0;
  process.on("message", (message: Gathering) => {
    if (!isObject(message)) return;
    if ("wanted" in message) {
      const part = message.wanted;
      const answer = (value: Part) => process.send?.({ part, value } satisfies Gathering);
      own().then(answer, () => {});
    } else if ("gathered" in message) {
      // The workers run the same program as this one, and so send the same kind of part.
      waiting.get(message.gathered)?.(message.values as readonly Part[]);
      waiting.delete(message.gathered);
    }
  });
  return () =>
    new Promise((resolve) => {
      const id = next++;
      waiting.set(id, resolve);
      process.send?.({ gather: id } satisfies Gathering);
    });
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
