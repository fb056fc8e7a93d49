import { assertBetween, validationFailed } from "../errors.ts";
import type { BlobInfo, BlobsPort } from "../ports/blobs.ts";
import { concatenated } from "../ports/edm.ts";
import { isRefusal } from "../ports/port-error.ts";
import type { Session } from "../store/session.ts";
import {
  fileName,
  filesOf,
  folderOf,
  hourOf,
  openMetadata,
  type Span,
  sealedMetadata,
  sequenceOf,
} from "./log-file.ts";
import type { LogDeclaration, Timed } from "./log-format.ts";

export interface LogWriterOptions {
  /** What triggers an automatic flush. Default: 1 MiB, 1,000 records or 5 seconds. */
  readonly flush?: { readonly bytes?: number; readonly records?: number; readonly ms?: number };
  /** "each": `write` resolves when the record is stored. "interval" (default): when it is buffered. */
  readonly durability?: "each" | "interval";
  /** Where a file ends and the next one begins. Default: 64 MiB or 49,000 blocks. */
  readonly file?: { readonly bytes?: number; readonly blocks?: number };
  /** Buffered bytes from which on `write` waits for a flush. Default: 16 MiB. */
  readonly highWaterBytes?: number;
}

interface Pending {
  /** 1 for the first record accepted. */
  readonly number: number;
  readonly line: Uint8Array;
  readonly ms: number;
}

/** A file that this writer created, and that no other client writes to. */
interface OpenFile {
  readonly name: string;
  readonly sequence: number;
  length: number;
  blocks: number;
  firstMs: number;
  lastMs: number;
}

/** Records of one hour that are being stored, kept byte for byte until their outcome is known. */
interface Block extends Span {
  /** The number of its first record: no other pending record has a lower one. */
  readonly number: number;
  readonly hour: number;
  readonly bytes: Uint8Array;
}

const MIB = 1024 * 1024;
/** Every version of the service accepts this. */
const BLOCK_BYTES_MAX = 4 * MIB;
/** Of the 50,000 that a blob can have. */
const FILE_BLOCKS = 49_000;
const FILE_BYTES = 64 * MIB;
const FLUSH_BYTES = MIB;
const FLUSH_RECORDS = 1000;
const FLUSH_MS = 5000;
const HIGH_WATER_BYTES = 16 * MIB;
const LINE_FEED = 10;
const TRIES_MAX = 10;

/**
 * Buffers records and appends them in blocks, one append at a time. A file belongs to the writer that created
 * it, so the writer knows the position of the next append, and the file's length shows whether an uncertain
 * append happened.
 *
 * A record is pending until its block is stored. When an append fails for good, its block stays as it is and is
 * stored first the next time; nothing is dropped and nothing is stored twice.
 */
export class LogWriter<Entry extends Timed> {
  readonly #session: Session;
  readonly #blobs: BlobsPort;
  readonly #log: LogDeclaration<Entry>;
  readonly #isEach: boolean;
  readonly #limits: Readonly<
    Record<"bytes" | "records" | "ms" | "fileBytes" | "blocks" | "highWaterBytes", number>
  >;
  readonly #token: string;
  /** By hour. Between flushes only the file of the newest hour stays open. */
  readonly #files = new Map<number, OpenFile>();
  readonly #closed = new AbortController();
  #pending: Pending[] = [];
  #pendingBytes = 0;
  #block: Block | undefined;
  #accepted = 0;
  /** The last file that was given up, and its hour: the next file of that hour follows it. */
  #full = { hour: Number.NaN, sequence: 0 };
  /** The append in flight: one at a time. */
  #storing: Promise<void> | undefined;
  #isFlushDue = false;

  constructor(
    session: Session,
    blobs: BlobsPort,
    log: LogDeclaration<Entry>,
    options: LogWriterOptions = {},
  ) {
    this.#session = session;
    this.#blobs = blobs;
    this.#log = log;
    this.#token = session.writeToken();
    const { flush = {}, file = {}, durability, highWaterBytes = HIGH_WATER_BYTES } = options;
    const { bytes = FLUSH_BYTES, records = FLUSH_RECORDS, ms = FLUSH_MS } = flush;
    const { bytes: fileBytes = FILE_BYTES, blocks = FILE_BLOCKS } = file;
    this.#isEach = durability === "each";
    this.#limits = { bytes, records, ms, fileBytes, blocks, highWaterBytes };
    const asGiven = {
      "flush.bytes": bytes,
      "flush.records": records,
      "flush.ms": ms,
      "file.bytes": fileBytes,
      "file.blocks": blocks,
      highWaterBytes,
    };
    assertBetween("The log", asGiven, 1);
  }

  /**
   * Accepts a record. With durability "each" it rejects when the record could not be stored yet; the record
   * stays accepted and is stored by the next flush. A full buffer is flushed first; if that fails, the record
   * is not accepted.
   * @throws validation-failed for a record without a time, of more than 4 MiB, or after `close`.
   */
  async write(entry: Entry): Promise<void> {
    const ms = entry?.at instanceof Date ? entry.at.getTime() : Number.NaN;
    if (Number.isNaN(ms)) throw validationFailed("The record", "at", "a valid Date is expected");
    const line = new TextEncoder().encode(`${this.#log.format.encode(entry)}\n`);
    if (line.length > BLOCK_BYTES_MAX) {
      const message = `${line.length} bytes; at most ${BLOCK_BYTES_MAX} are allowed`;
      throw validationFailed("The record", "line", message);
    }
    if (line.indexOf(LINE_FEED) < line.length - 1) {
      throw validationFailed("The record", "line", "the format returned a line break");
    }
    const { bytes, records, highWaterBytes } = this.#limits;
    if (this.#pendingBytes >= highWaterBytes) await this.flush();
    if (this.#closed.signal.aborted) {
      throw validationFailed("The record", "write", "the writer is closed");
    }
    this.#pending.push({ number: ++this.#accepted, line, ms });
    this.#pendingBytes += line.length;
    if (this.#isEach) return this.flush();
    if (this.#pendingBytes >= bytes || this.#pending.length >= records) {
      this.#flushUnasked(this.flush());
    } else this.#flushLater();
  }

  /**
   * Resolves when all records accepted so far are stored. If a block cannot be stored, every waiting flush
   * rejects.
   */
  async flush(): Promise<void> {
    const upTo = this.#accepted;
    while (this.#oldest <= upTo) {
      this.#storing ??= this.#storeNext().finally(() => {
        this.#storing = undefined;
      });
      await this.#storing;
    }
  }

  /** Flushes, then seals the open files. No more records are accepted. May be called again if it fails. */
  async close(): Promise<void> {
    this.#closed.abort();
    await this.flush();
    for (const hour of this.#files.keys()) await this.#seal(hour);
  }

  #flushLater(): void {
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    this.#flushUnasked(
      this.#session.clock.alarm(this.#limits.ms, this.#closed.signal).then(() => {
        this.#isFlushDue = false;
        return this.flush();
      }),
    );
  }

  #flushUnasked(flushed: Promise<void>): void {
    flushed.catch((error) => {
      if (this.#closed.signal.aborted) return;
      this.#report(error);
      this.#flushLater();
    });
  }

  #report(error: unknown): void {
    const what = `writing to ${this.#log.container}/${this.#log.service}`;
    this.#session.report({ kind: "background failure", what, error });
  }

  /** The number of the first record that is not stored yet. */
  get #oldest(): number {
    return (this.#block ?? this.#pending[0])?.number ?? Number.POSITIVE_INFINITY;
  }

  /** A block that failed stays as it is, and is stored first the next time. */
  async #storeNext(): Promise<void> {
    this.#block ??= this.#nextBlock();
    const { hour } = this.#block;
    await this.#store(this.#block);
    this.#block = undefined;
    await this.#sealFinished(hour);
  }

  /** The oldest record, with others of its hour. */
  #nextBlock(): Block {
    const [{ number, ms: oldestMs }] = this.#pending as [Pending];
    const hour = hourOf(oldestMs);
    const lines: Uint8Array[] = [];
    const left: Pending[] = [];
    const span = { firstMs: Number.POSITIVE_INFINITY, lastMs: Number.NEGATIVE_INFINITY };
    let length = 0;
    let isFull = false;
    for (const record of this.#pending) {
      const { line, ms } = record;
      const isOurs = hourOf(ms) === hour;
      // No record overtakes one that did not fit.
      isFull ||= isOurs && length + line.length > BLOCK_BYTES_MAX;
      if (!isOurs || isFull) {
        left.push(record);
        continue;
      }
      lines.push(line);
      length += line.length;
      span.firstMs = Math.min(span.firstMs, ms);
      span.lastMs = Math.max(span.lastMs, ms);
    }
    this.#pending = left;
    this.#pendingBytes -= length;
    return { number, hour, bytes: concatenated(lines), ...span };
  }

  async #store(block: Block): Promise<void> {
    const { hour, bytes } = block;
    for (let tries = 1; ; tries++) {
      const file = this.#files.get(hour) ?? (await this.#create(block));
      try {
        await this.#blobs.append(this.#log.container, file.name, bytes, file.length);
      } catch (error) {
        if (!isRefusal(error, 404, 409, 412)) throw error;
        if (!(await this.#hasGrown(file, bytes.length))) {
          // The file is full, gone, or written to by another client: use the next one.
          if (tries === TRIES_MAX) throw error;
          if (error.status === 409) await this.#seal(hour);
          this.#abandon(hour);
          continue;
        }
      }
      file.length += bytes.length;
      file.blocks++;
      file.firstMs = Math.min(file.firstMs, block.firstMs);
      file.lastMs = Math.max(file.lastMs, block.lastMs);
      return;
    }
  }

  /** Whether the refused append is a repetition of one of ours that had succeeded. */
  async #hasGrown({ name, length }: OpenFile, bytes: number): Promise<boolean> {
    const [found] = await this.#list(name);
    return found?.name === name && found.length === length + bytes;
  }

  async #create({ hour, firstMs, lastMs }: Block): Promise<OpenFile> {
    const folder = folderOf(this.#log.service, hour);
    const span = { firstMs, lastMs };
    const metadata = openMetadata(this.#token, span);
    let sequence = this.#full.hour === hour ? this.#full.sequence + 1 : 1;
    for (let tries = 1; ; tries++) {
      const name = fileName(folder, sequence);
      try {
        await this.#blobs.createAppendBlob(this.#log.container, name, metadata);
      } catch (error) {
        if (!isRefusal(error, 404, 409) || tries === TRIES_MAX) throw error;
        if (error.status === 404) {
          await this.#blobs.createContainer(this.#log.container);
          continue;
        }
        const files = await this.#list(folder);
        const taken = files.find((file) => file.name === name);
        // Unless the file is ours, and only the answer to its creation was lost.
        if (taken?.metadata.writer !== this.#token || taken.length > 0) {
          sequence = Math.max(sequence, ...files.map((file) => sequenceOf(file.name))) + 1;
          continue;
        }
      }
      const file: OpenFile = { name, sequence, length: 0, blocks: 0, ...span };
      this.#files.set(hour, file);
      return file;
    }
  }

  #list(prefix: string): Promise<BlobInfo[]> {
    return filesOf(this.#blobs, this.#log.container, prefix);
  }

  /** Seals a full file, and files of past hours that no record is pending for. */
  async #sealFinished(hour: number): Promise<void> {
    const { fileBytes, blocks } = this.#limits;
    const file = this.#files.get(hour);
    if (file && (file.blocks >= blocks || file.length >= fileBytes)) await this.#seal(hour);
    const newest = Math.max(...this.#files.keys());
    for (const other of this.#files.keys()) {
      const isAwaited = this.#pending.some(({ ms }) => hourOf(ms) === other);
      if (other < newest && !isAwaited) await this.#seal(other);
    }
  }

  /** Readers read an unsealed file whole, so a failure costs them time and loses nothing. */
  async #seal(hour: number): Promise<void> {
    const file = this.#abandon(hour);
    if (!file) return;
    await this.#blobs
      .setMetadata(this.#log.container, file.name, sealedMetadata(this.#token, file))
      .catch((error) => this.#report(error));
  }

  /** Writes nothing more to the hour's file. @returns that file. */
  #abandon(hour: number): OpenFile | undefined {
    const file = this.#files.get(hour);
    this.#files.delete(hour);
    if (file) this.#full = { hour, sequence: file.sequence };
    return file;
  }
}
