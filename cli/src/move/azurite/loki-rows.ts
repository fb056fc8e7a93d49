import { createReadStream, statSync } from "node:fs";
import { objectEnd, stringEnd } from "../raw-entity.ts";

/** A row of one collection in a file of the emulator. */
export interface LokiRow {
  readonly collection: string;
  readonly row: Readonly<Record<string, unknown>>;
  /** The part of the file that is read, from 0 to 1. */
  readonly done: number;
}

/**
 * Reads the rows of a file of the emulator, one JSON document of the form
 * `{"filename":…,"collections":[{"name":…,"data":[{row},…],…},…],…}`, without holding more than a row of it: files
 * of 500 MB are too long for a JavaScript string, which is why the emulator itself cannot open them any more.
 * @throws Error for a file that ends in the middle, is something else, or changes while it is read
 */
export async function* lokiRows(path: string): AsyncGenerator<LokiRow> {
  const { size, mtimeMs } = statSync(path);
  const scanner = new RowScanner();
  let read = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) {
    read += (chunk as Buffer).length;
    for (const { collection, bytes } of scanner.push(chunk as Buffer)) {
      yield { collection, row: parseRow(bytes, path), done: read / size };
    }
  }
  const now = statSync(path);
  if (now.size !== size || now.mtimeMs !== mtimeMs) {
    throw new Error(`${path} changed while it was read: stop the emulator first.`);
  }
  if (!scanner.isComplete) {
    throw new Error(`${path} ends in the middle, or is no file of the emulator.`);
  }
}

function parseRow(bytes: Buffer, path: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch (cause) {
    throw new Error(`${path} has a row that is no JSON.`, { cause });
  }
}

/** Depths at which a document of the emulator has its parts. */
const ROOT = 1;
const COLLECTION = 3;
const DATA = 4;

/** Finds rows in a document that arrives in chunks. Between calls it keeps an unfinished row at the most. */
class RowScanner {
  #rest: Buffer = Buffer.alloc(0);
  #depth = 0;
  #key = "";
  #collection = "";
  isComplete = false;

  *push(chunk: Buffer): Generator<{ readonly collection: string; readonly bytes: Buffer }> {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
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
    this.#rest = bytes.subarray(at);
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
