import { createHash } from "node:crypto";
import type { BackgroundWork } from "../catalog/background-loop.ts";
import { BackgroundWriter } from "../catalog/background-writer.ts";
import { Catalog } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { Clock } from "../clock.ts";
import { ContentIds } from "../content/content-ids.ts";
import { RowContentStore } from "../content/row-content-store.ts";
import type { Engine } from "../engine/engine.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import type { AnalyticsLog, LogBatch } from "../insight/analytics-log.ts";
import { SERVICE_NAMES } from "../wire/service-name.ts";
import { namesRange } from "./blob-keys.ts";
import { LOG_CONTAINER } from "./blob-operation.ts";
import type { CommittedBlob } from "./blob-record.ts";
import { BlobStore } from "./blob-store.ts";
import type { ContainerValue } from "./container-value.ts";
import { hourPrefix, logBlobName, logBlobNumber, logMetadata } from "./log-blob-names.ts";

export interface LogBlobsOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly accountIds: ReadonlyMap<string, number>;
  readonly log: AnalyticsLog;
  /** How many days the log of a service is kept; undefined: forever. */
  readonly retentionDays: (account: string, service: LogBatch["service"]) => number | undefined;
  readonly onError: (error: unknown) => void;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** How many old blobs are looked up at a time. */
const OLD_BLOBS_TOGETHER = 256;

/**
 * Writes the analytics log to `$logs` once a minute, earlier when much is waiting, and when the server
 * closes. Each write creates new blobs, one row and one commit each, that are never changed, so several
 * processes need only find a free number.
 */
export class LogBlobs implements BackgroundWork {
  readonly #options: LogBlobsOptions;
  /** Each of its parts becomes one blob. */
  readonly #writer: BackgroundWriter<LogBatch>;
  readonly #catalog: Catalog<ContainerValue>;
  readonly #blobs: BlobStore;
  readonly #rows: RowContentStore;
  readonly #ids: ContentIds;
  /** The next number, probably free, by account and hour. Cleared every hour. */
  readonly #numbers = new Map<string, number>();
  #numbersHour = 0;
  /** The hour in which old blobs were last looked for, by account and service. */
  readonly #cleared = new Map<string, number>();

  constructor(options: LogBlobsOptions) {
    this.#options = options;
    const { accountIds, clock, engine, log, onError } = options;
    this.#writer = new BackgroundWriter({
      clock,
      name: "blobs of the analytics log",
      onError,
      run: () => this.write(),
      prepare: ({ account }) => this.#openContainer(account),
      put: (batch) => this.#put(batch),
      written: ({ entries }) => log.written(entries),
      giveBack: (batch) => log.giveBack(batch),
    });
    this.#catalog = new Catalog(engine, KEY_SPACES.blobCatalog, accountIds, clock);
    // The whole content is one row, so nothing is ever left over.
    this.#blobs = new BlobStore({ engine, clock, catalog: this.#catalog, onLeftOver() {} });
    this.#rows = new RowContentStore(engine, KEY_SPACES.blobContents);
    this.#ids = new ContentIds(engine);
  }

  start(): void {
    this.#writer.start();
  }

  /** Writes soon. */
  wake(): void {
    this.#writer.wake();
  }

  close(): Promise<void> {
    return this.#writer.close();
  }

  /** Writes all waiting lines and deletes blobs that are too old. Lines that cannot be written keep waiting. */
  async write(): Promise<void> {
    const { log, onError } = this.#options;
    try {
      do {
        await this.#writer.write(log.take().flatMap((batch) => this.#cut(batch)));
      } while (log.isFilled);
    } finally {
      const dropped = log.takeDropped();
      if (dropped > 0) onError(new Error(`${dropped} lines of the analytics log were dropped.`));
    }
    await this.#clearOld();
  }

  /** Splits a batch into batches that fit a row each. */
  #cut(batch: LogBatch): LogBatch[] {
    const blobs: LogBatch[] = [];
    let bytes = Number.POSITIVE_INFINITY;
    for (const entry of batch.entries) {
      const length = Buffer.byteLength(entry.line) + 1;
      if (bytes + length > this.#rows.rowBytesMax) {
        blobs.push({ ...batch, entries: [] });
        bytes = 0;
      }
      blobs.at(-1)!.entries.push(entry);
      bytes += length;
    }
    return blobs;
  }

  async #put(batch: LogBatch): Promise<void> {
    const { account, entries } = batch;
    const bytes = Buffer.from(entries.map(({ line }) => `${line}\n`).join(""), "utf8");
    for (let number = await this.#nextNumber(batch); ; number++) {
      const blob = logBlobName(batch, number);
      const state = await this.#blobs.read({ account, container: LOG_CONTAINER, blob });
      if (state.version !== undefined) continue;

      const id = this.#ids.next();
      const modified = this.#blobs.now();
      const made: CommittedBlob = {
        type: "BlockBlob",
        size: bytes.length,
        content: { in: "row", id },
        modified,
        created: modified,
        properties: {
          contentType: "application/octet-stream",
          contentMd5: createHash("md5").update(bytes).digest("base64"),
        },
        metadata: logMetadata(entries),
      };
      const puts = [this.#rows.rowOf(id, bytes)];
      const change = { record: { blob: made }, puts, result: undefined };
      if (!(await this.#blobs.commit(state, change, []))) continue;
      this.#numbers.set(numbersKey(batch), number + 1);
      return;
    }
  }

  /** Creates the container with the first lines of an account. */
  async #openContainer(account: string): Promise<void> {
    if (await this.#catalog.find(account, LOG_CONTAINER)) return;
    const modified = this.#blobs.now();
    await this.#catalog.create(account, LOG_CONTAINER, { modified, metadata: [], policies: [] });
  }

  /** The number after the last existing blob's. A gap left by a deleted blob is not filled. */
  async #nextNumber(batch: LogBatch): Promise<number> {
    const now = this.#options.clock.now();
    const hour = now - (now % HOUR_MS);
    if (hour !== this.#numbersHour) {
      this.#numbers.clear();
      this.#numbersHour = hour;
    }
    const known = this.#numbers.get(numbersKey(batch));
    if (known !== undefined) return known;
    let next = 0;
    const names = await this.#names(batch.account, hourPrefix(batch), Number.POSITIVE_INFINITY);
    for (const name of names) next = logBlobNumber(name) + 1;
    return next;
  }

  /** Deletes blobs of hours older than the retention, once an hour. */
  async #clearOld(): Promise<void> {
    const { clock, retentionDays } = this.#options;
    const now = clock.now();
    const hour = now - (now % HOUR_MS);
    for (const account of this.#catalog.accountNames) {
      for (const service of SERVICE_NAMES) {
        const days = retentionDays(account, service);
        const place = `${account}/${service}`;
        if (days === undefined || this.#cleared.get(place) === hour) continue;
        if (this.#writer.closed) return;
        // Set first, so that a log that cannot be cleared does not block the others; it is retried in an
        // hour.
        this.#cleared.set(place, hour);
        await this.#clearBefore(account, service, hour - days * DAY_MS);
      }
    }
  }

  async #clearBefore(account: string, service: LogBatch["service"], hour: number): Promise<void> {
    if (!(await this.#catalog.find(account, LOG_CONTAINER))) return;
    const before = hourPrefix({ service, hour });
    for (;;) {
      const names = await this.#names(account, `${service}/`, OLD_BLOBS_TOGETHER);
      const old = names.filter((name) => name < before);
      for (const name of old) {
        if (this.#writer.closed) return;
        await this.#delete(account, name);
      }
      if (old.length < OLD_BLOBS_TOGETHER) return;
    }
  }

  #delete(account: string, blob: string): Promise<void> {
    return this.#blobs.change({ account, container: LOG_CONTAINER, blob }, ({ record }) => {
      const content = record.blob?.content;
      const deletes = content?.in === "row" ? [this.#rows.keyOf(content.id)] : [];
      return { record: undefined, deletes, result: undefined };
    });
  }

  /** The first names with this prefix, in ascending order. */
  async #names(account: string, prefix: string, max: number): Promise<string[]> {
    const container = await this.#blobs.findContainer(account, LOG_CONTAINER);
    const partition = this.#blobs.partition(account, container);
    const names: string[] = [];
    const range = namesRange(partition, prefix, new Uint8Array(0));
    await scanToEnd(
      this.#options.engine,
      range,
      ({ key }) => names.push(Buffer.from(key.sort).toString("utf8")) < max,
    );
    return names;
  }
}

function numbersKey({ account, service, hour }: LogBatch): string {
  return `${account}/${service}/${hour}`;
}
