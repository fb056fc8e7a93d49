import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { installAzurite, startAzurite } from "../contenders/azurite.ts";
import { BareHttp } from "../contenders/bare-http.ts";
import { DiskFlush } from "../contenders/disk-flush.ts";
import { DiskWrite } from "../contenders/disk-write.ts";
import { Md5Alone } from "../contenders/md5.ts";
import { RawLmdb } from "../contenders/raw-lmdb.ts";
import { type RowhouseOptions, startRowhouse } from "../contenders/rowhouse.ts";
import type { LoadCommand, LoadResult } from "../load/load-process.ts";
import type { ServiceName } from "../load/request-writer.ts";
import { BenchProcess } from "./bench-process.ts";
import type { Case, Opponent, Reach } from "./case.ts";
import { Comparison } from "./comparison.ts";
import type { Contender, Window, Work } from "./contender.ts";
import { HttpContender, type LoadGenerator } from "./http-contender.ts";
import type { Measurement } from "./measurement.ts";
import type { Progress } from "./progress.ts";
import { type CaseResult, describe, toCaseResult } from "./results.ts";
import type { ServerProcess } from "./server-process.ts";

export interface BenchOptions {
  /** Spends about a minute on each question. */
  readonly short: boolean;
  /** Includes the sizes that take an hour. */
  readonly full: boolean;
  /** Length of a soak. */
  readonly minutes: number | undefined;
}

export interface RowhouseForm
  extends Pick<RowhouseOptions, "cores" | "flags" | "node" | "workers"> {
  readonly data?: string;
  /** Default: the question's service. */
  readonly service?: ServiceName;
}

/** The environment of one question. Everything it starts ends with it. */
export class Bench {
  readonly options: BenchOptions;
  readonly progress: Progress;
  readonly results: CaseResult[] = [];
  readonly #service: ServiceName;
  readonly #folder: string;
  readonly #load: LoadGenerator;
  readonly #contenders = new Map<string, Contender>();

  private constructor(
    options: BenchOptions,
    progress: Progress,
    service: ServiceName,
    folder: string,
    load: LoadGenerator,
  ) {
    this.options = options;
    this.progress = progress;
    this.#service = service;
    this.#folder = folder;
    this.#load = load;
  }

  static async open(
    options: BenchOptions,
    progress: Progress,
    service: ServiceName = "table",
  ): Promise<Bench> {
    // Next to the sources, so on a real disk: a temporary folder is often in memory.
    const folder = fileURLToPath(new URL(`../.data/${process.pid}`, import.meta.url));
    mkdirSync(folder, { recursive: true });
    folders.add(folder);
    const module = new URL("../load/load-process.ts", import.meta.url);
    const load = await BenchProcess.start<LoadCommand, LoadResult>(module, "client");
    return new Bench(options, progress, service, folder, load);
  }

  /** Compares Rowhouse with the opponents of each case, one case after the other. */
  async compareAll(cases: readonly Case[]): Promise<void> {
    const asked = cases.filter(({ longOnly }) => !(longOnly && this.options.short));
    const turns = asked.reduce((sum, { against }) => sum + against.length + 1, 0);
    for (const each of asked) {
      const contenders: Contender[] = [await this.rowhouse()];
      for (const name of each.against) contenders.push(await this.#opponent(name));
      await this.compare(each, contenders, this.#window(turns));
    }
  }

  /** Measures A B C, A B C, …: each contender in each round, alone on the machine during its turn. */
  async compare(
    work: Work & {
      readonly name: string;
      readonly reaches?: readonly Reach[];
      readonly rows?: number;
      /** Default: 3 in the short form, 5 in the long one. */
      readonly rounds?: number;
    },
    contenders: readonly Contender[],
    window = this.#window(contenders.length),
  ): Promise<Comparison> {
    for (const contender of contenders) await contender.prepare(work);
    for (const contender of this.#contenders.values()) contender.pause();
    const rounds = new Map<string, Measurement[]>(contenders.map(({ name }) => [name, []]));
    const count = work.rounds ?? (this.options.short ? 3 : 5);
    // Round 0 is a warm-up: code is compiled and pages are read. A server needs a second for that.
    const warmUp = { ...window, windowMs: Math.max(window.windowMs, 1000) };
    for (let round = 0; round <= count; round++) {
      for (const contender of contenders) {
        this.progress.show(`${work.name}: round ${round} of ${count}, ${contender.name}`);
        contender.resume();
        const measurement = await contender.measure(work, round === 0 ? warmUp : window);
        contender.pause();
        if (round > 0) rounds.get(contender.name)?.push(measurement);
      }
    }
    for (const contender of this.#contenders.values()) contender.resume();
    const comparison = new Comparison(rounds);
    this.record(toCaseResult(work, comparison));
    return comparison;
  }

  record(result: CaseResult): void {
    this.results.push(result);
    for (const line of describe(result)) this.progress.say(line);
  }

  /** The Rowhouse that all cases of a question share. */
  async rowhouse(): Promise<HttpContender> {
    const existing = this.#contenders.get("rowhouse");
    return existing instanceof HttpContender ? existing : this.startRowhouse("rowhouse");
  }

  /** Starts another Rowhouse, on a folder of the same name unless `data` names one. */
  async startRowhouse(name: string, options: RowhouseForm = {}): Promise<HttpContender> {
    return this.#http(name, await this.startServer(name, options));
  }

  /** Starts a Rowhouse that the question measures and stops itself. */
  startServer(name: string, { data = name, ...rest }: RowhouseForm = {}): Promise<ServerProcess> {
    const logFile = join(this.#folder, `${name}.log`);
    const service = this.#service;
    return startRowhouse({ service, ...rest, directory: this.folder(data), logFile });
  }

  /** A folder on the measured disk; removed at the end. */
  folder(name: string): string {
    const folder = join(this.#folder, name);
    mkdirSync(folder, { recursive: true });
    return folder;
  }

  async close(): Promise<void> {
    for (const contender of this.#contenders.values()) await contender.stop();
    await this.#load.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #opponent(name: Opponent): Promise<Contender> {
    const existing = this.#contenders.get(name);
    if (existing !== undefined) return existing;
    const started = await this.#startOpponent(name);
    this.#contenders.set(name, started);
    return started;
  }

  async #startOpponent(name: Opponent): Promise<Contender> {
    switch (name) {
      case "bare node:http":
        return BareHttp.start(await this.rowhouse(), this.#load, this.progress);
      case "raw LMDB":
      case "raw LMDB, no copies":
        return RawLmdb.start(name, this.folder(name));
      case "disk flush":
        return DiskFlush.start(join(this.#folder, "disk-flush"));
      case "MD5 alone":
        return Md5Alone.start();
      case "disk write":
        return DiskWrite.start(join(this.#folder, "disk-write"));
      case "azurite":
        installAzurite();
        return this.#http(
          name,
          await startAzurite(this.#service, {
            directory: this.folder("azurite"),
            logFile: join(this.#folder, "azurite.log"),
          }),
        );
    }
  }

  #http(name: string, server: ServerProcess): HttpContender {
    const contender = new HttpContender(name, server, this.#load, this.progress);
    this.#contenders.set(name, contender);
    return contender;
  }

  /**
   * The short form divides its time among all turns of a question. In the long form a contender is paused
   * while the others run, so long that V8 considers it idle and collects its whole heap when it resumes. The
   * warm-up must cover that, or it becomes the p99.9 of every round (20 ms instead of 5).
   */
  #window(turnsOfARound: number): Window {
    if (!this.options.short) return { warmUpMs: 1000, windowMs: 2000 };
    const turnMs = Math.min(2000, SHORT_FORM_MS / (turnsOfARound * 4));
    return { warmUpMs: turnMs * 0.2, windowMs: turnMs * 0.8 };
  }
}

/** The folders to remove when a bench is stopped in the middle. */
const folders = new Set<string>();
process.once("exit", () => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** Leaves part of the minute for starting and filling. */
const SHORT_FORM_MS = 36_000;
