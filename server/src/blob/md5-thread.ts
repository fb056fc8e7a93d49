import { Worker } from "node:worker_threads";

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
  readonly part?: Uint8Array;
}

interface Answer {
  readonly sum: number;
  /** Absent when a part has been summed. */
  readonly md5?: string;
}

interface Waiting {
  readonly resolve: (md5: string | undefined) => void;
  readonly reject: (error: Error) => void;
}

const PART_BYTES = 128 << 10;
/** So many parts wait for the thread, of all uploads together; then each waits for its last one. */
const PARTS_WAITING_MAX = 16;

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
  #partsWaiting = 0;
  /** By sum, in the order in which answers come. */
  readonly #waiting = new Map<number, Waiting[]>();
  /** Shared with the thread and used again, for V8 does not notice how much of such memory is free. */
  readonly #parts: Uint8Array[] = [];

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

  /** Memory for a part, to be given back. */
  takePart(): Uint8Array {
    return this.#parts.pop() ?? new Uint8Array(new SharedArrayBuffer(PART_BYTES));
  }

  giveBack(part: Uint8Array): void {
    this.#parts.push(part);
  }

  /**
   * @param bytes how many of `part`, which is then given back
   * @returns a promise when more is waiting than is good for the memory
   */
  add(sum: number, part: Uint8Array, bytes: number): Promise<unknown> | undefined {
    this.#partsWaiting++;
    const summed = this.#ask({ sum, part: part.subarray(0, bytes) }).finally(() => {
      this.#partsWaiting--;
      this.giveBack(part);
    });
    // Whoever waits for the sum hears of it.
    summed.catch(() => {});
    return this.#partsWaiting > PARTS_WAITING_MAX ? summed : undefined;
  }

  async end(sum: number): Promise<string> {
    return (await this.#ask({ sum })) ?? "";
  }

  #ask(step: Step): Promise<string | undefined> {
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#waiting.size === 0) this.#worker.ref();
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(step.sum);
      if (waiting) waiting.push({ resolve, reject });
      else this.#waiting.set(step.sum, [{ resolve, reject }]);
      this.#worker.postMessage(step);
    });
  }

  #settle({ sum, md5 }: Answer): void {
    const waiting = this.#waiting.get(sum)!;
    const { resolve } = waiting.shift()!;
    if (waiting.length === 0) this.#waiting.delete(sum);
    if (this.#waiting.size === 0) this.#worker.unref();
    resolve(md5);
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
  #part: Uint8Array | undefined;
  #filled = 0;

  constructor(thread: Md5Thread, sum: number) {
    this.#thread = thread;
    this.#sum = sum;
  }

  /**
   * The bytes may change afterwards.
   * @returns what to wait for before the next ones, if anything
   */
  update(bytes: Uint8Array): Promise<unknown> | undefined {
    let ready: Promise<unknown> | undefined;
    for (let at = 0; at < bytes.length; ) {
      this.#part ??= this.#thread.takePart();
      const taken = bytes.subarray(at, at + PART_BYTES - this.#filled);
      this.#part.set(taken, this.#filled);
      this.#filled += taken.length;
      at += taken.length;
      if (this.#filled === PART_BYTES) ready = this.#send() ?? ready;
    }
    return ready;
  }

  /** In base64. To be asked once, or else `forget`. */
  digest(): Promise<string> {
    this.#send();
    return this.#thread.end(this.#sum);
  }

  forget(): void {
    // The thread forgets a sum when it has told it.
    this.digest().catch(() => {});
  }

  #send(): Promise<unknown> | undefined {
    const part = this.#part;
    if (part === undefined) return undefined;
    this.#part = undefined;
    const bytes = this.#filled;
    this.#filled = 0;
    return this.#thread.add(this.#sum, part, bytes);
  }
}
