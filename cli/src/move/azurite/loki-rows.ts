import { open } from "node:fs/promises";
import { objectEnd, stringEnd } from "../raw-entity.ts";

/** A row of one collection in a file of the emulator: a JSON object. */
export interface LokiRow {
  readonly collection: string;
  /** Valid until the next rows are requested. */
  readonly bytes: Buffer;
}

export interface LokiRows {
  readonly rows: Iterable<LokiRow>;
  /** The part of the file that is read, from 0 to 1. */
  readonly done: number;
}

/**
 * Reads the rows of a file of the emulator, one JSON document of the form
 * `{"filename":…,"collections":[{"name":…,"data":[{row},…],…},…],…}`, without holding more than a row of it: files
 * of 500 MB are too long for a JavaScript string, which is why the emulator itself cannot open them any more.
 * @throws Error for a file that ends in the middle, is something else, or changes while it is read
 */
export async function* lokiRows(path: string): AsyncGenerator<LokiRows> {
  const file = await open(path);
  try {
    const { size, mtimeMs } = await file.stat();
    const scanner = new RowScanner();
    // One piece of memory for the whole file: a new one for each part costs as much as finding its rows.
    let memory = Buffer.allocUnsafe(PART_BYTES);
    let read = 0;
    for (let kept = 0; ; ) {
      const { bytesRead } = await file.read(memory, kept, memory.length - kept);
      if (bytesRead === 0) break;
      read += bytesRead;
      const filled = kept + bytesRead;
      yield { rows: scanner.scan(memory.subarray(0, filled)), done: read / size };
      kept = filled - scanner.scanned;
      const larger = kept > memory.length / 2 ? Buffer.allocUnsafe(2 * memory.length) : memory;
      memory.copy(larger, 0, scanner.scanned, filled);
      memory = larger;
    }
    const now = await file.stat();
    if (now.size !== size || now.mtimeMs !== mtimeMs) {
      throw new Error(`${path} changed while it was read: stop the emulator first.`);
    }
    if (!scanner.isComplete) {
      throw new Error(
        `${path} ends in the middle, or is no file of the emulator. Run this again with the whole file, which takes the rest.`,
      );
    }
  } finally {
    await file.close();
  }
}

const PART_BYTES = 1 << 18;

/** Depths at which a document of the emulator has its parts. */
const ROOT = 1;
const COLLECTION = 3;
const DATA = 4;

/** Finds rows in a document that arrives in parts. */
class RowScanner {
  #depth = 0;
  #key = "";
  #collection = "";
  isComplete = false;
  /** The bytes of the last part that are done with, once its rows are taken: the rest belongs to the next part. */
  scanned = 0;

  *scan(bytes: Buffer): Generator<LokiRow> {
    let at = 0;
    while (at < bytes.length) {
      const byte = bytes[at]!;
      if (byte === OPEN && this.#depth === DATA && this.#key === "data") {
        const end = objectEnd(bytes, at);
        if (end === undefined) break;
        yield { collection: this.#collection, bytes: bytes.subarray(at, end) };
        at = end;
      } else if (byte === QUOTE) {
        const end = stringEnd(bytes, at);
        // The colon behind a key is needed to tell it from a value.
        if (end === undefined || end + 1 >= bytes.length) break;
        if (this.#depth === COLLECTION)
          this.#take(bytes.toString("utf8", at + 1, end), bytes[end + 1]!);
        at = end + 1;
      } else {
        if (byte === OPEN || byte === LIST) this.#depth++;
        if (byte === CLOSE || byte === LIST_END) this.#depth--;
        if (byte === CLOSE && this.#depth === ROOT - 1) this.isComplete = true;
        at++;
      }
    }
    this.scanned = at;
  }

  /** A string inside a collection: a key, or the value of the last one. */
  #take(text: string, next: number): void {
    if (next === COLON) this.#key = text;
    else if (this.#key === "name") this.#collection = text;
  }
}

const QUOTE = 0x22;
const COLON = 0x3a;
const LIST = 0x5b;
const LIST_END = 0x5d;
const OPEN = 0x7b;
const CLOSE = 0x7d;
