import { randomBytes } from "node:crypto";
import { BackgroundLoop, type BackgroundWork } from "../../catalog/background-loop.ts";
import { KEY_SPACES } from "../../catalog/key-spaces.ts";
import type { Engine, Key } from "../../engine/engine.ts";
import { copyKey, partitionRange } from "../../engine/key-codec.ts";
import { scanToEnd } from "../../engine/scan-to-end.ts";
import type { Readers } from "./readers.ts";

const PARTITION = Uint8Array.of(KEY_SPACES.blobReads);
const PERIOD_MS = 20_000;
/**
 * How long a process's report is trusted, and how long something released may still be read by a process that
 * has not reported it. A process reports within two periods; clocks of front ends differ by at most a minute.
 */
export const UNREPORTED_MICROS_MAX = 120 * 1e6;

export interface LongReadsOptions {
  readonly engine: Engine;
  readonly readers: Readers;
  readonly onError: (error: unknown) => void;
}

/**
 * Reports the long reads of this process to the collectors of the others, under a key of its own, repeatedly
 * while they last. Short reads, which are nearly all, cost nothing: where several processes share the data,
 * collectors do not free what was released a moment ago.
 */
export class LongReads implements BackgroundWork {
  readonly #options: LongReadsOptions;
  readonly #loop: BackgroundLoop;
  readonly #own: Key = { partition: PARTITION, sort: randomBytes(6) };
  /** The reads in progress at the last run. */
  #before: ReadonlySet<string> = new Set();
  #hasReported = false;

  constructor(options: LongReadsOptions) {
    this.#options = options;
    const { onError } = options;
    this.#loop = new BackgroundLoop({ run: () => this.report(), periodMs: PERIOD_MS, onError });
  }

  start(): void {
    this.#loop.start();
  }

  close(): Promise<void> {
    return this.#loop.close();
  }

  /** Reports the reads that were already in progress one period ago, if another process shares the data. */
  async report(): Promise<void> {
    const { engine, readers } = this.#options;
    const reading = new Set(readers.ids());
    const ids = [...reading].filter((id) => this.#before.has(id));
    this.#before = reading;
    const version = engine.nextVersion();
    if (ids.length > 0 && engine.supports.sharing && engine.isShared!()) {
      this.#hasReported = true;
      const puts = [{ key: this.#own, value: Buffer.from(JSON.stringify(ids), "latin1") }];
      await engine.commit({ version, checks: [], puts, deletes: [] });
    } else if (this.#hasReported) {
      await engine.commit({ version, checks: [], puts: [], deletes: [this.#own] });
      this.#hasReported = false;
    }
  }

  /** Ids of the reads that processes have reported. Deletes reports that killed processes left behind. */
  async reported(): Promise<ReadonlySet<string>> {
    const { engine } = this.#options;
    const since = engine.nextVersion() - UNREPORTED_MICROS_MAX;
    const ids = new Set<string>();
    const deletes: Key[] = [];
    await scanToEnd(engine, partitionRange(PARTITION), ({ key, value, version }) => {
      if (version < since) deletes.push(copyKey(key));
      else
        for (const id of JSON.parse(Buffer.from(value).toString("latin1")) as string[]) ids.add(id);
      return true;
    });
    if (deletes.length > 0) {
      await engine.commit({ version: engine.nextVersion(), checks: [], puts: [], deletes });
    }
    return ids;
  }
}
