import { BenchProcess } from "../harness/bench-process.ts";
import type { Contender, Window, Work } from "../harness/contender.ts";
import { HttpContender, type LoadGenerator } from "../harness/http-contender.ts";
import type { Measurement } from "../harness/measurement.ts";
import type { Progress } from "../harness/progress.ts";
import type { BareAnswer } from "./bare-http-process.ts";

/** node:http alone, sending what Rowhouse sends: same status, headers and body. */
export class BareHttp implements Contender {
  readonly name = "bare node:http";
  readonly #process: BenchProcess<BareAnswer, number>;
  readonly #http: HttpContender;
  readonly #original: HttpContender;

  private constructor(
    process: BenchProcess<BareAnswer, number>,
    http: HttpContender,
    original: HttpContender,
  ) {
    this.#process = process;
    this.#http = http;
    this.#original = original;
  }

  static async start(
    original: HttpContender,
    load: LoadGenerator,
    progress: Progress,
  ): Promise<BareHttp> {
    const module = new URL("./bare-http-process.ts", import.meta.url);
    const process = await BenchProcess.start<BareAnswer, number>(module, "server");
    const port = await process.ask({ status: 204, headers: [], body: new Uint8Array() });
    const server = {
      pid: process.pid,
      target: { ...original.server.target, port },
      pause: () => process.signal("SIGSTOP"),
      resume: () => process.signal("SIGCONT"),
      stop: () => process.stop(),
    };
    const http = new HttpContender("bare node:http", server, load, progress);
    return new BareHttp(process, http, original);
  }

  /** Sends one request to the original and records its answer. */
  async prepare(work: Work): Promise<void> {
    await this.#original.prepare(work);
    const { body, head } = await this.#original.sample(work);
    await this.#process.ask({ status: Number(head.slice(9, 12)), headers: toHeaders(head), body });
  }

  measure(work: Work, window: Window): Promise<Measurement> {
    return this.#http.measure(work, window);
  }

  pause(): void {
    this.#http.pause();
  }

  resume(): void {
    this.#http.resume();
  }

  stop(): Promise<void> {
    return this.#http.stop();
  }
}

/** Without the headers that node:http writes itself. */
function toHeaders(head: string): string[] {
  const headers: string[] = [];
  for (const line of head.split("\r\n").slice(1)) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon);
    if (colon < 0 || /^(date|connection|keep-alive)$/i.test(name)) continue;
    headers.push(name, line.slice(colon + 1).trim());
  }
  return headers;
}
