import { Worker } from "node:worker_threads";
import { handledLater } from "../../awaitable.ts";

/** The thread's program, as text, so that it starts without a loader, both from source and when built. */
const PROGRAM = `
const { createHash } = require("node:crypto");
const { parentPort } = require("node:worker_threads");
const sums = new Map();
parentPort.on("message", ({ sum, part }) => {
  const hash = sums.get(sum) ?? createHash("md5");
  if (part) {
    sums.set(sum, hash.update(part));
    parentPort.postMessage({ sum });
  } else {
    sums.delete(sum);
    parentPort.postMessage({ sum, md5: hash.digest("base64") });
  }
});
`;

/** One step of a checksum: a part of the content, or its end. */
interface Step {
  readonly sum: number;
  readonly part?: Uint8Array<SharedArrayBuffer>;
}

interface Answer {
  readonly sum: number;
  /** In base64; only in the answer to the end. */
  readonly md5?: string;
}

interface Waiting {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Computes MD5 in a thread of its own. MD5 takes almost half of the cost of an upload, and each step needs
 * the one before: of the 250 ms that 64 MiB keep the main thread busy, 120 move to this thread. It starts
 * with the first checksum and stays, but keeps no process alive that is not waiting for it. If it ends, the
 * checksums in progress fail.
 */
class Md5Thread {
  readonly #worker: Worker;
  #failure: Error | undefined;
  #sums = 0;
  /** By checksum, in the order of their answers. */
  readonly #waiting = new Map<number, Waiting[]>();

  constructor() {
    this.#worker = new Worker(PROGRAM, {
      eval: true,
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
    });
    this.#worker.on("message", (answer: Answer) => this.#settle(answer));
    this.#worker.on("error", (error: Error) => this.#fail(error));
    this.#worker.on("exit", () => this.#fail(new Error("The checksum thread exited.")));
    this.#worker.unref();
  }

  get failed(): boolean {
    return this.#failure !== undefined;
  }

  begin(): Md5Sum {
    return new Md5Sum(this, ++this.#sums);
  }

  ask(step: Step): Promise<Answer> {
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#waiting.size === 0) this.#worker.ref();
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(step.sum);
      if (waiting) waiting.push({ resolve, reject });
      else this.#waiting.set(step.sum, [{ resolve, reject }]);
      this.#worker.postMessage(step);
    });
  }

  #settle(answer: Answer): void {
    const { sum } = answer;
    const waiting = this.#waiting.get(sum)!;
    const { resolve } = waiting.shift()!;
    if (waiting.length === 0) this.#waiting.delete(sum);
    if (this.#waiting.size === 0) this.#worker.unref();
    resolve(answer);
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    const lost = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    for (const { reject } of lost) reject(this.#failure);
  }
}

let thread: Md5Thread | undefined;

/** Begins a checksum in the one MD5 thread of this process. */
export function beginMd5(): Md5Sum {
  if (thread === undefined || thread.failed) thread = new Md5Thread();
  return thread.begin();
}

/** One checksum in progress. */
export class Md5Sum {
  readonly #thread: Md5Thread;
  readonly #sum: number;

  constructor(thread: Md5Thread, sum: number) {
    this.#thread = thread;
    this.#sum = sum;
  }

  /** Adds a part, which the thread reads in place. The part must not change until this resolves. */
  update(part: Uint8Array<SharedArrayBuffer>): Promise<void> {
    return handledLater(this.#thread.ask({ sum: this.#sum, part }).then(() => {}));
  }

  /** In base64. Call it once, or `forget` instead. */
  async digest(): Promise<string> {
    const { md5 } = await this.#thread.ask({ sum: this.#sum });
    return md5!;
  }

  forget(): void {
    // The thread drops a checksum once it has returned it.
    this.digest().catch(() => {});
  }
}
