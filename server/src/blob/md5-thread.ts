import { Worker } from "node:worker_threads";
import { handledLater } from "../awaitable.ts";

/** What the thread runs. A text, so that it starts without a loader, as source and when built alike. */
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

/** One step of a sum: a part of the content, or else its end. */
interface Step {
  readonly sum: number;
  readonly part?: Uint8Array<SharedArrayBuffer>;
}

interface Answer {
  readonly sum: number;
  /** In base64; of the end. */
  readonly md5?: string;
}

interface Waiting {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
}

/**
 * MD5 in a thread of its own. It takes almost half of what an upload costs, and each step of it needs
 * the one before: of 250 ms that 64 MiB keep the main thread busy, 120 go elsewhere. The thread begins
 * with the first sum and stays; it keeps no process alive that does not wait for it. Should it end,
 * what it has begun fails.
 */
class Md5Thread {
  readonly #worker: Worker;
  #failure: Error | undefined;
  #sums = 0;
  /** By sum, in the order in which answers come. */
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
    this.#worker.on("exit", () => this.#fail(new Error("The thread that sums content ended.")));
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

/** Begins a checksum in the thread that this process has for them. */
export function beginMd5(): Md5Sum {
  if (thread === undefined || thread.failed) thread = new Md5Thread();
  return thread.begin();
}

/** One checksum in the making. */
export class Md5Sum {
  readonly #thread: Md5Thread;
  readonly #sum: number;

  constructor(thread: Md5Thread, sum: number) {
    this.#thread = thread;
    this.#sum = sum;
  }

  /** Adds a part, which the thread reads where it is. It must stay as it is until this resolves. */
  update(part: Uint8Array<SharedArrayBuffer>): Promise<void> {
    return handledLater(this.#thread.ask({ sum: this.#sum, part }).then(() => {}));
  }

  /** In base64. To be asked once, or else `forget`. */
  async digest(): Promise<string> {
    const { md5 } = await this.#thread.ask({ sum: this.#sum });
    return md5!;
  }

  forget(): void {
    // The thread drops a sum once it has answered with it.
    this.digest().catch(() => {});
  }
}
