import assert from "node:assert/strict";
import {
  existsSync,
  fstatSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { testContentStoreConformance } from "./conformance.ts";
import { PIECE_BYTES } from "./content-checksums.ts";
import type { ContentStore } from "./content-store.ts";
import { FileContentStore } from "./file-content-store.ts";

testContentStoreConformance({
  name: "FileContentStore",
  open: () => FileContentStore.open(mkdtempSync(join(tmpdir(), "rowhouse-contents-"))),
  reopen: (closed) => FileContentStore.open(pathOf(closed)),
  discard: async (closed) => rmSync(pathOf(closed), { recursive: true }),
});

const MIB = 1 << 20;
const CONTENT = "00000000001aaaaa";

describe("A content that is being written to a file", () => {
  it("is flushed while it arrives, in steps that double up to 8 MiB, and at its end", async (test) => {
    const { write, flushes } = await onDisk(test, ({ end }) => end());
    await write(26);
    assert.deepEqual(
      flushes.map(({ fileBytes }) => Math.floor(fileBytes / MIB)),
      [2, 4, 8, 16, 24, 26],
    );
  });

  it("is flushed at its end without waiting for an earlier flush; the write resolves after both and fails with either", async (test) => {
    for (const order of [
      [0, 1],
      [1, 0],
    ]) {
      for (const failing of [undefined, 0, 1]) {
        let begun = () => {};
        const { write, flushes } = await onDisk(test, () => flushes.length === 2 && begun());
        const bothBegun = new Promise<void>((resolve) => (begun = resolve));
        const writing = write(12);
        writing.catch(() => {});
        await bothBegun;
        assert.deepEqual(
          flushes.map(({ fileBytes }) => Math.floor(fileBytes / MIB)),
          [2, 12],
        );
        for (const i of order) {
          flushes[i]!.end(i === failing ? new Error("EIO") : undefined);
          await new Promise(setImmediate);
        }
        if (failing === undefined) await writing;
        else await assert.rejects(writing, { code: "Unavailable" }, `${failing} of ${order}`);
        test.mock.restoreAll();
      }
    }
  });
});

describe("The name of a content's file", () => {
  it("is flushed by write, copy, delete and flush, which fail if that fails", async (test) => {
    const { everyFile, store, write } = await onDisk(test, ({ end }) => end());
    await write(1);
    const other = "00000000002aaaaa";
    const sync = test.mock.method(everyFile, "sync", () => Promise.reject(new Error("EIO")));
    for (const change of [
      () => store.write(other, inMib(1)),
      () => store.copy(CONTENT, "00000000003aaaaa"),
      () => store.delete(other),
      () => store.flush(),
    ]) {
      await assert.rejects(change(), { code: "Unavailable" });
    }
    sync.mock.restore();
    await store.delete(other);
  });

  it("is in a folder that is itself flushed into its parent", async (test) => {
    const { everyFile, store } = await onDisk(test, ({ end }) => end());
    const flushed = new Set<number>();
    test.mock.method(everyFile, "sync", async function (this: FileHandle) {
      flushed.add(fstatSync(this.fd).ino);
    });
    await FileContentStore.open(store.path);
    assert.ok(flushed.has(statSync(store.path).ino));
  });
});

const OTHER_DISK = "/dev/shm";
if (existsSync(OTHER_DISK) && statSync(OTHER_DISK).dev !== statSync(tmpdir()).dev) {
  it("A content is copied byte by byte and flushed when the target is on another file system", async (test) => {
    const path = mkdtempSync(join(OTHER_DISK, "rowhouse-contents-"));
    test.after(() => rmSync(path, { recursive: true }));
    const copies = await FileContentStore.open(path);
    const { store, write, flushes } = await onDisk(test, ({ end }) => end());
    await write(1);
    flushes.length = 0;
    await copies.copyFrom(store, CONTENT, CONTENT);
    assert.deepEqual(
      flushes.map(({ fileBytes }) => Math.floor(fileBytes / MIB)),
      [1],
    );
    for await (const part of copies.read(CONTENT, 0, MIB)) {
      assert.ok(part.every((byte) => byte === 1));
    }
  });
}

interface Flush {
  /** The length of the file when the flush began. */
  readonly fileBytes: number;
  readonly end: (error?: Error) => void;
}

/** A store whose files are flushed when the test decides. */
async function onDisk(test: TestContext, onFlush: (flush: Flush) => void) {
  const path = mkdtempSync(join(tmpdir(), "rowhouse-contents-"));
  test.after(() => rmSync(path, { recursive: true }));
  const store = await FileContentStore.open(path);
  const some = await open(path, "r");
  const everyFile: FileHandle = Object.getPrototypeOf(some);
  await some.close();
  const flushes: Flush[] = [];
  test.mock.method(everyFile, "datasync", function (this: FileHandle) {
    const { size: fileBytes } = fstatSync(this.fd);
    return new Promise<void>((resolve, reject) => {
      const flush = { fileBytes, end: (error?: Error) => (error ? reject(error) : resolve()) };
      flushes.push(flush);
      onFlush(flush);
    });
  });
  return { everyFile, store, flushes, write: (mib: number) => store.write(CONTENT, inMib(mib)) };
}

async function* inMib(count: number): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < count; i++) yield new Uint8Array(MIB).fill(1);
}

function pathOf(store: ContentStore): string {
  if (!(store instanceof FileContentStore)) throw new Error("Not a store of files.");
  return store.path;
}

describe("The file of a content", () => {
  const length = 5 * PIECE_BYTES + 1234;
  const at = (folder: string) => join(folder, CONTENT.charAt(10), CONTENT);

  async function withContent(
    test: (store: FileContentStore, file: string, bytes: Buffer) => Promise<void>,
  ): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), "rowhouse-contents-"));
    const store = await FileContentStore.open(folder);
    const bytes = Buffer.from(Uint8Array.from({ length }, (_, i) => i * 31 + (i >> 8)));
    await store.write(
      CONTENT,
      (async function* () {
        yield bytes;
      })(),
    );
    await test(store, at(folder), bytes);
    rmSync(folder, { recursive: true });
  }

  async function read(store: FileContentStore, start: number, end: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for await (const part of store.read(CONTENT, start, end)) parts.push(Buffer.from(part));
    return Buffer.concat(parts);
  }

  const isDamaged = { code: "Corrupt", message: /is damaged/ };

  it("gives no damaged byte, and every range that is intact, whichever bit is flipped", () =>
    withContent(async (store, file, bytes) => {
      const whole = readFileSync(file);
      for (const place of [0, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES + 77, length - 1]) {
        const flipped = Buffer.from(whole);
        flipped[place] = flipped[place]! ^ 16;
        writeFileSync(file, flipped);
        await assert.rejects(read(store, 0, length), isDamaged, `byte ${place}`);
        await assert.rejects(read(store, place, place + 1), isDamaged, `byte ${place}`);
        await assert.rejects(store.verify(CONTENT), isDamaged);
        const piece = Math.floor(place / PIECE_BYTES);
        const start = piece * PIECE_BYTES;
        assert.ok((await read(store, 0, start)).equals(bytes.subarray(0, start)));
        const end = Math.min(start + PIECE_BYTES, length);
        assert.ok((await read(store, end, length)).equals(bytes.subarray(end)));
      }
      writeFileSync(file, whole);
      assert.equal(await store.verify(CONTENT), true);
    }));

  it("is refused wherever it was cut off", () =>
    withContent(async (store, file) => {
      for (const cut of [length - 1, PIECE_BYTES, 1, 0]) {
        truncateSync(file, cut);
        await assert.rejects(read(store, 0, length), { code: "Corrupt", message: /ends at byte/ });
      }
    }));

  it("is read without checksums where it was written in format 1", () =>
    withContent(async (store, file, bytes) => {
      truncateSync(file, length);
      assert.ok((await read(store, 10, length - 10)).equals(bytes.subarray(10, length - 10)));
      assert.equal(await store.verify(CONTENT), false);
    }));
});

describe("The readers of a store of files", () => {
  const LARGE = 4 * MIB;
  const byte = (at: number) => (at * 31 + (at >> 16)) & 0xff;

  async function withContent(
    test: TestContext,
    run: (store: FileContentStore, bytes: Buffer) => Promise<void>,
  ): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), "rowhouse-contents-"));
    test.after(() => rmSync(folder, { recursive: true }));
    const store = await FileContentStore.open(folder);
    const bytes = Buffer.from(Uint8Array.from({ length: LARGE }, (_, at) => byte(at)));
    await store.write(
      CONTENT,
      (async function* () {
        yield bytes;
      })(),
    );
    await run(store, bytes);
  }

  it("read no more than three parts at once, in turn, and each gets its own bytes", (test) =>
    withContent(test, async (store, bytes) => {
      const some = await open(join(store.path, CONTENT.charAt(10), CONTENT), "r");
      const everyFile: FileHandle = Object.getPrototypeOf(some);
      await some.close();
      const { read } = everyFile;
      let [running, most] = [0, 0];
      test.mock.method(everyFile, "read", async function (this: FileHandle, ...args: never[]) {
        most = Math.max(most, ++running);
        try {
          return await Reflect.apply(read, this, args);
        } finally {
          running--;
        }
      });
      const whole = async (start: number) => {
        const parts: Buffer[] = [];
        for await (const part of store.read(CONTENT, start, LARGE)) parts.push(Buffer.from(part));
        return Buffer.concat(parts).equals(bytes.subarray(start));
      };
      const readers = Array.from({ length: 20 }, (_, i) => whole(i * 10_001));
      assert.deepEqual(new Set(await Promise.all(readers)), new Set([true]));
      assert.equal(most, 3);
    }));

  it("hold little memory when there are many, and long buffers again when they have left", (test) =>
    withContent(test, async (store, bytes) => {
      const begun = async (count: number) => {
        const readers = Array.from({ length: count }, () => store.read(CONTENT, 0, LARGE));
        const firsts = await Promise.all(readers.map((reader) => reader.next()));
        return { readers, lengths: firsts.map(({ value }) => value?.length ?? 0) };
      };
      const many = await begun(300);
      assert.equal(many.lengths[0], 4 * PIECE_BYTES);
      assert.equal(many.lengths.at(-1), PIECE_BYTES);
      const held = store.readingBytes;
      assert.ok(held < 34 * MIB + 300 * PIECE_BYTES, `${held}`);
      // One of those with little is not slower for good.
      const late = many.readers.at(-1)!;
      for (const reader of many.readers.slice(0, -1)) await reader.return(undefined);
      let [at, longest] = [PIECE_BYTES, 0];
      for await (const part of late) {
        assert.ok(bytes.subarray(at, at + part.length).equals(part));
        at += part.length;
        longest = Math.max(longest, part.length);
      }
      assert.equal(at, LARGE);
      assert.equal(longest, 4 * PIECE_BYTES);
      assert.equal(store.readingBytes, 0);
    }));

  it("give their memory back when they leave early, even if a part is still being read, and when they fail", (test) =>
    withContent(test, async (store) => {
      for await (const part of store.read(CONTENT, 0, LARGE)) {
        assert.equal(part.length, 4 * PIECE_BYTES);
        break;
      }
      assert.equal(store.readingBytes, 0);
      truncateSync(join(store.path, CONTENT.charAt(10), CONTENT), LARGE / 2);
      await assert.rejects(async () => {
        for await (const _ of store.read(CONTENT, 0, LARGE));
      });
      assert.equal(store.readingBytes, 0);
    }));
});
