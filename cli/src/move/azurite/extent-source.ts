import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import type { BodySource } from "@rowhouse/server/wire/body-source";
import { PartsFiller } from "@rowhouse/server/wire/parts-filler";
import { numberOf, type Row, rowOf, textOf } from "./row-members.ts";

/** A run of bytes in one of the emulator's extent files. */
export interface AzuriteChunk {
  readonly extent: string;
  readonly offset: number;
  readonly bytes: number;
}

/** @throws Error for a row without `persistency` */
export function chunkOf(row: Row): AzuriteChunk {
  const persistency = rowOf(row, "persistency");
  return {
    extent: textOf(persistency, "id"),
    offset: numberOf(persistency, "offset"),
    bytes: numberOf(persistency, "count"),
  };
}

/** Reads extents of one folder, `__blobstorage__` or `__queuestorage__`. */
export class Extents {
  readonly #folder: string;
  #opened: { readonly extent: string; readonly file: FileHandle } | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** The bytes of one chunk. @throws Error if the file is missing or shorter */
  async read(chunk: AzuriteChunk): Promise<Buffer> {
    const parts: Buffer[] = [];
    for await (const part of this.#parts([chunk])) parts.push(part);
    return Buffer.concat(parts);
  }

  /** Chunks one after the other, as the body of a request. */
  source(chunks: readonly AzuriteChunk[]): BodySource {
    const filler = new PartsFiller(this.#parts(chunks));
    const bytes = chunks.reduce((sum, chunk) => sum + chunk.bytes, 0);
    return {
      bytes,
      async read(bytesMax) {
        if (bytes > bytesMax) return undefined;
        const whole = Buffer.alloc(bytes);
        await filler.fill(whole);
        return whole;
      },
      reserve() {},
      fill: (memory) => filler.fill(memory),
    };
  }

  async close(): Promise<void> {
    await this.#opened?.file.close();
    this.#opened = undefined;
  }

  async *#parts(chunks: readonly AzuriteChunk[]): AsyncGenerator<Buffer> {
    for (const { extent, offset, bytes } of chunks) {
      for (let done = 0; done < bytes; ) {
        const file = await this.#open(extent);
        const part = Buffer.allocUnsafe(Math.min(PART_BYTES, bytes - done));
        const { bytesRead } = await file.read(part, 0, part.length, offset + done);
        if (bytesRead === 0) {
          throw new Error(`${join(this.#folder, extent)} is shorter than its rows say`);
        }
        done += bytesRead;
        yield part.subarray(0, bytesRead);
      }
    }
  }

  async #open(extent: string): Promise<FileHandle> {
    if (this.#opened?.extent === extent) return this.#opened.file;
    // The name comes from a file that may be hostile: it must not lead elsewhere.
    if (!/^[0-9A-Za-z-]+$/.test(extent)) throw new Error(`"${extent}" is no name of an extent`);
    await this.close();
    const file = await open(join(this.#folder, extent), "r");
    this.#opened = { extent, file };
    return file;
  }
}

const PART_BYTES = 1 << 20;
