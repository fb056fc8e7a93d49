import { constants, mkdirSync } from "node:fs";
import { access, copyFile, type FileHandle, link, open, readdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { handledLater } from "../awaitable.ts";
import { EngineError } from "../engine/engine.ts";
import { makeFolder } from "../engine/make-folder.ts";
import {
  arePiecesIntact,
  FOOTER_BYTES,
  lengthInFooter,
  PIECE_BYTES,
  PieceSums,
} from "./content-checksums.ts";
import { ContentReads, isLong } from "./content-reads.ts";
import type { ContentId, ContentStore } from "./content-store.ts";
import { SharedFlush } from "./shared-flush.ts";

/**
 * While bytes arrive, a flush begins once as many are unflushed as are flushed already, within these limits: less
 * than a usual block, and as much as is flushed quickly. Flushing every 2 MiB made 64 MiB take a twentieth longer.
 */
const FLUSH_BYTES_MIN = 2 << 20;
const FLUSH_BYTES_MAX = 8 << 20;

/** The name of their folder in a data folder. */
export const CONTENTS_FOLDER = "contents";

/** Folders, each named by one digit of the id: enough for millions of files, few enough to flush together. */
const FOLDERS = [..."0123456789abcdefghijklmnopqrstuvwxyz"];
/** The digit of an id that changes fastest. */
const FOLDER_DIGIT = 10;

/**
 * Contents as files in a folder, next to the embedded engine. A file has its final name from the start, since
 * nothing refers to it before its metadata is committed; by then the file and its folder are flushed. Checksums follow
 * the content, and everything that is read is checked: see `content-checksums.ts`.
 */
export class FileContentStore implements ContentStore {
  readonly path: string;
  readonly #folders: ReadonlyMap<string, Folder>;
  readonly #reads = new ContentReads();

  private constructor(path: string, folders: ReadonlyMap<string, Folder>) {
    this.path = path;
    this.#folders = folders;
  }

  /** Opens the folder, creating it if it is absent. Several processes may open the same one. */
  static async open(path: string): Promise<FileContentStore> {
    makeFolder(path, 0o700);
    for (const name of FOLDERS) mkdirSync(join(path, name), { recursive: true, mode: 0o700 });
    await flushFolder(path);
    return new FileContentStore(
      path,
      new Map(FOLDERS.map((name) => [name, new Folder(join(path, name))])),
    );
  }

  /** Memory of all reads that have begun and not ended. */
  get readingBytes(): number {
    return this.#reads.heldBytes;
  }

  async write(id: ContentId, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const folder = this.#folderOf(id);
    const { failures } = folder;
    const file = await attempt(open(folder.pathOf(id), "wx", 0o600), "create a file");
    // The name is flushed while the content is written, not after it.
    const named = handledLater(folder.flush(failures));
    try {
      await pour(bytes, file);
    } finally {
      await file.close();
    }
    await named;
  }

  async *read(id: ContentId, start: number, end: number): AsyncGenerator<Uint8Array> {
    if (start >= end) return;
    const reads = this.#reads;
    const { file, sums } = await reads.inTurn(() => this.#openWithSums(id));
    const buffers = new Set<Buffer>();
    const spare: Buffer[] = [];
    let isLeft = false;
    let ahead: Promise<Part> | undefined;
    try {
      if (sums !== undefined && end > sums.length) throw endsAt(id, sums.length, end);
      // Only whole pieces can be checked.
      const from = sums === undefined ? start : start - (start % PIECE_BYTES);
      const to =
        sums === undefined
          ? end
          : Math.min(Math.ceil(end / PIECE_BYTES) * PIECE_BYTES, sums.length);
      const readPart = (at: number) =>
        reads.inTurn(async (): Promise<Part> => {
          // A consumer that left while this waited needs no memory.
          const buffer = isLeft ? NOTHING : (spare.pop() ?? reads.takeBuffer(to - at));
          if (buffer.length > 0) buffers.add(buffer);
          const bytes = buffer.subarray(0, to - at);
          await readWhole(file, id, bytes, at);
          return { buffer, bytes };
        });
      for (let at = from; at < to; ) {
        const { buffer, bytes } = await (ahead ?? readPart(at));
        const partAt = at;
        at += bytes.length;
        // Two long buffers alternate: the next part is read while the consumer holds this one.
        ahead = at < to && isLong(buffer) ? handledLater(readPart(at)) : undefined;
        if (sums && !sums.areIntact(bytes, partAt)) throw damaged(id);
        yield bytes.subarray(Math.max(0, start - partAt), Math.max(0, end - partAt));
        if (isLong(buffer) || (spare.length === 0 && !reads.hasPlenty)) {
          spare.push(buffer);
        } else {
          buffers.delete(buffer);
          reads.giveBack(buffer);
        }
      }
    } finally {
      isLeft = true;
      await ahead?.catch(() => {});
      for (const buffer of buffers) reads.giveBack(buffer);
      await file.close();
    }
  }

  /**
   * Reads a whole content and checks it. Returns false if it has no checksums: it was stored in format 1.
   * @throws EngineError `Corrupt` if it is missing or damaged.
   */
  async verify(id: ContentId): Promise<boolean> {
    const { file, sums } = await this.#reads.inTurn(() => this.#openWithSums(id));
    await file.close();
    if (sums === undefined) return false;
    for await (const _ of this.read(id, 0, sums.length));
    return true;
  }

  async has(id: ContentId): Promise<boolean> {
    return access(this.#folderOf(id).pathOf(id)).then(
      () => true,
      () => false,
    );
  }

  async #openWithSums(id: ContentId): Promise<OpenContent> {
    const file = await open(this.#folderOf(id).pathOf(id), "r").catch((cause) => {
      throw isMissing(cause) ? missing(id, cause) : unavailable(`open ${id}`, cause);
    });
    try {
      return { file, sums: await readSums(file, id) };
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  async copy(from: ContentId, to: ContentId): Promise<void> {
    const folder = this.#folderOf(to);
    const { failures } = folder;
    await this.copyFrom(this, from, to);
    await folder.flush(failures);
  }

  /** Like `copy`, from another store, except that the name is on disk only after a `flush`. */
  async copyFrom(store: FileContentStore, from: ContentId, to: ContentId): Promise<void> {
    const source = store.#folderOf(from).pathOf(from);
    const target = this.#folderOf(to).pathOf(to);
    try {
      // Contents never change, so one file may have many names.
      await link(source, target);
    } catch (cause) {
      if (isMissing(cause)) throw missing(from, cause);
      await attempt(copyWhole(source, target), `copy ${from}`);
    }
  }

  /** Flushes all names. */
  async flush(): Promise<void> {
    for (const folder of this.#folders.values()) await folder.flush(folder.failures);
  }

  async delete(id: ContentId): Promise<void> {
    const folder = this.#folderOf(id);
    const { failures } = folder;
    await unlink(folder.pathOf(id)).catch((cause) => {
      if (!isMissing(cause)) throw unavailable(`delete ${id}`, cause);
    });
    // A loss of power must not bring back a file that no note remembers.
    await folder.flush(failures);
  }

  async *list(): AsyncGenerator<ContentId> {
    for (const name of FOLDERS) yield* await readdir(join(this.path, name));
  }

  async close(): Promise<void> {}

  #folderOf(id: ContentId): Folder {
    const folder = this.#folders.get(id.charAt(FOLDER_DIGIT));
    if (folder === undefined) throw new RangeError(`"${id}" is not the id of a content.`);
    return folder;
  }
}

/** A folder whose names must be on disk. */
class Folder extends SharedFlush {
  readonly #path: string;

  constructor(path: string) {
    super(() => flushFolder(path));
    this.#path = path;
  }

  pathOf(id: ContentId): string {
    return join(this.#path, id);
  }
}

async function flushFolder(path: string): Promise<void> {
  const folder = await attempt(open(path, "r"), `open ${path}`);
  try {
    await attempt(folder.sync(), `flush ${path}`);
  } finally {
    await folder.close();
  }
}

/**
 * Writes while the next part arrives, and flushes while more is written, so that little is left to flush at
 * the end. A slow flush delays no write; the next one then has more to do.
 */
async function pour(bytes: AsyncIterable<Uint8Array>, file: FileHandle): Promise<void> {
  let written = 0;
  let flushed = 0;
  let isFlushing = false;
  let writing: Promise<unknown> = Promise.resolve();
  let flushing: Promise<unknown> = Promise.resolve();
  const flush = async () => {
    isFlushing = true;
    await attempt(file.datasync(), "flush");
    // A failure is reported once, and ends the write.
    isFlushing = false;
  };
  const sums = new PieceSums();
  try {
    for await (const part of bytes) {
      sums.add(part);
      await writing;
      const due = Math.min(Math.max(flushed, FLUSH_BYTES_MIN), FLUSH_BYTES_MAX);
      if (!isFlushing && written - flushed >= due) {
        flushed = written;
        flushing = handledLater(flush());
      }
      writing = handledLater(attempt(writeWhole(file, part, written), "write"));
      written += part.length;
    }
    await writing;
    await attempt(writeWhole(file, sums.trailer(), written), "write");
    // Alongside a running flush, not after it. Either may receive the file's error, and then the other does not.
    flushing = handledLater(Promise.all([flushing, attempt(file.datasync(), "flush")]));
  } finally {
    await Promise.allSettled([writing, flushing]);
  }
  await flushing;
}

async function writeWhole(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, at, bytes.length - at, position + at);
    at += bytesWritten;
  }
}

async function readWhole(
  file: FileHandle,
  id: ContentId,
  target: Uint8Array,
  start: number,
): Promise<void> {
  for (let at = 0; at < target.length; ) {
    const reading = file.read(target, at, target.length - at, start + at);
    const { bytesRead } = await attempt(reading, `read ${id}`);
    if (bytesRead === 0) throw endsAt(id, start + at, start + target.length);
    at += bytesRead;
  }
}

interface OpenContent {
  readonly file: FileHandle;
  /** Undefined if the file has none. */
  readonly sums: Sums | undefined;
}

/** The bytes are at the beginning of the buffer. */
interface Part {
  readonly buffer: Buffer;
  readonly bytes: Uint8Array;
}

const NOTHING = Buffer.alloc(0);

/** The checksums of a content. */
interface Sums {
  /** Of the content. */
  readonly length: number;
  /** Whether whole pieces from `at` on are what was written. */
  areIntact(pieces: Uint8Array, at: number): boolean;
}

/** Undefined if the file has none. */
async function readSums(file: FileHandle, id: ContentId): Promise<Sums | undefined> {
  const { size } = await attempt(file.stat(), `read ${id}`);
  if (size < FOOTER_BYTES) return undefined;
  // Enough for the checksums of 15 MiB, hence one read for most files.
  const tail = Buffer.allocUnsafe(Math.min(size, TAIL_BYTES));
  await readWhole(file, id, tail, size - tail.length);
  const length = lengthInFooter(tail.subarray(-FOOTER_BYTES), size);
  if (length === undefined) return undefined;
  const trailerBytes = size - length;
  let trailer = tail.subarray(Math.max(0, tail.length - trailerBytes));
  if (trailerBytes > tail.length) {
    trailer = Buffer.allocUnsafe(trailerBytes);
    await readWhole(file, id, trailer, length);
  }
  return {
    length,
    areIntact: (pieces, at) => arePiecesIntact(pieces, trailer.subarray((at / PIECE_BYTES) * 4)),
  };
}

const TAIL_BYTES = 1 << 10;

/** For when a file cannot have another name: the file system has no links, or the file has too many. */
async function copyWhole(source: string, target: string): Promise<void> {
  await copyFile(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  const file = await open(target, "r+");
  try {
    await file.datasync();
  } finally {
    await file.close();
  }
}

async function attempt<T>(work: Promise<T>, what: string): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    throw unavailable(what, cause);
  }
}

function unavailable(what: string, cause: unknown): EngineError {
  const reason = cause instanceof Error ? cause.message : cause;
  return new EngineError("Unavailable", `The content store could not ${what}: ${reason}`, {
    cause,
  });
}

function endsAt(id: ContentId, at: number, end: number): EngineError {
  return new EngineError("Corrupt", `Content ${id} ends at byte ${at}; it must reach byte ${end}.`);
}

function damaged(id: ContentId): EngineError {
  return new EngineError("Corrupt", `Content ${id} is damaged.`);
}

function missing(id: ContentId, cause: unknown): EngineError {
  return new EngineError("Corrupt", `Content ${id} is missing.`, { cause });
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
