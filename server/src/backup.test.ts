import assert from "node:assert/strict";
import fs, {
  existsSync,
  fstatSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { backUp } from "./backup.ts";
import { BlobLab } from "./blob/test-blob-lab.ts";
import { CONTENTS_FOLDER, FileContentStore } from "./content/file-content-store.ts";
import { copyKey } from "./engine/key-codec.ts";
import { type LmdbEngine, openLmdbEngine } from "./engine/lmdb/lmdb-engine.ts";
import { scanToEnd } from "./engine/scan-to-end.ts";

describe("A backup", () => {
  let folder: string;
  let engine: LmdbEngine;
  let contentStore: FileContentStore;
  let lab: BlobLab;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "rowhouse-backup-"));
    engine = await openLmdbEngine({ path: join(folder, "data") });
    contentStore = await FileContentStore.open(join(engine.path, CONTENTS_FOLDER));
    lab = await BlobLab.open({ engine, contentStore });
  });
  afterEach(async () => {
    await lab.close();
    await engine.close();
    rmSync(folder, { recursive: true });
  });

  it("does not contain the holds of other backups, which would never be released in it", async () => {
    const { notes } = lab.service.service.context;
    const hold = await notes.hold();
    const to = join(folder, "copy");
    await backUp({ engine, contentStore, to });
    hold.settle();
    const copy = await openLmdbEngine({ path: to });
    assert.equal(await scanToEnd(copy, notes.holds(), () => false), "complete");
    await copy.close();
    assert.equal(await scanToEnd(engine, notes.holds(), () => false), "stopped");
  });

  it("fails if a collector takes its process for dead, and leaves nothing behind", async () => {
    const { notes } = lab.service.service.context;
    const onProgress = () => {
      void engine.scan(notes.holds(), ({ key }) => {
        const deletes = [copyKey(key)];
        void engine.commit({ version: engine.nextVersion(), checks: [], puts: [], deletes });
        return true;
      });
    };
    const to = join(folder, "copy");
    await assert.rejects(
      backUp({ engine, contentStore, to, onProgress }),
      /cannot see this process/,
    );
    assert.deepEqual(readdirSync(folder), ["data"]);
  });

  it("flushes the folders of all contents before it has its final name", async (test) => {
    await lab.must("PUT", "/docs?restype=container");
    for (const name of ["a", "b", "c"]) {
      const headers = { "x-ms-blob-type": "BlockBlob" };
      await lab.must("PUT", `/docs/${name}`, { headers, body: Buffer.alloc(131_073) });
    }
    const to = join(folder, "copy");
    const flushed = new Set<number>();
    const some = await open(folder, "r");
    test.mock.method(Object.getPrototypeOf(some), "sync", async function (this: FileHandle) {
      if (!existsSync(to)) flushed.add(fstatSync(this.fd).ino);
    });
    await some.close();
    // Only flushes after the last content was copied count.
    await backUp({ engine, contentStore, to, onProgress: () => flushed.clear() });
    const filled = readdirSync(join(to, CONTENTS_FOLDER))
      .map((name) => join(to, CONTENTS_FOLDER, name))
      .filter((path) => readdirSync(path).length > 0);
    assert.ok(filled.length > 0);
    for (const path of filled) assert.ok(flushed.has(statSync(path).ino), path);
  });

  it("flushes the folder that contains it last", async (test) => {
    const flushed: number[] = [];
    test.mock.method(fs, "fsyncSync", (descriptor: number) => {
      flushed.push(fstatSync(descriptor).ino);
    });
    syncBuiltinESMExports();
    try {
      await backUp({ engine, contentStore, to: join(folder, "copy") });
    } finally {
      test.mock.restoreAll();
      syncBuiltinESMExports();
    }
    assert.equal(flushed.at(-1), statSync(folder).ino);
  });

  it("contains the committed and uncommitted blocks of blobs", async () => {
    await lab.must("PUT", "/docs?restype=container");
    for (const [id, letter] of [
      ["AAAA", "a"],
      ["BBBB", "b"],
    ] as const) {
      const body = Buffer.alloc(131_073, letter);
      await lab.must("PUT", `/docs/a?comp=block&blockid=${id}`, { body });
      if (id === "BBBB") continue;
      await lab.must("PUT", "/docs/a?comp=blocklist", { body: listOf(`<Latest>${id}</Latest>`) });
    }
    // The lab's collector is working on the draft. It would treat a hold of its own process as left over by a
    // dead one.
    await lab.close();
    const to = join(folder, "copy");
    assert.deepEqual((await backUp({ engine, contentStore, to })).damagedBlobs, []);

    const copy = await openLmdbEngine({ path: to });
    const copies = await FileContentStore.open(join(to, CONTENTS_FOLDER));
    const restored = await BlobLab.open({ engine: copy, contentStore: copies });
    const list = listOf("<Committed>AAAA</Committed><Uncommitted>BBBB</Uncommitted>");
    await restored.must("PUT", "/docs/a?comp=blocklist", { body: list });
    const expected = Buffer.concat([Buffer.alloc(131_073, "a"), Buffer.alloc(131_073, "b")]);
    assert.ok((await restored.must("GET", "/docs/a")).body.equals(expected));
    await restored.close();
    await copy.close();
  });

  it("contains the contents of more blobs than it copies at a time", async () => {
    await lab.must("PUT", "/docs?restype=container");
    for (let i = 0; i < 256; i++) await lab.put(`/docs/a${i}`);
    await lab.put("/docs/b", { body: Buffer.alloc(131_073) });
    const { contents: copied } = await backUp({ engine, contentStore, to: join(folder, "copy") });
    assert.equal(copied, 1);
  });

  it("reports the blobs whose content is missing, with account and container", async () => {
    for (const container of ["orders", "removed"]) {
      await lab.send("PUT", `/${container}?restype=container`);
      const request = { headers: { "x-ms-blob-type": "BlockBlob" }, body: Buffer.alloc(131_073) };
      assert.equal((await lab.send("PUT", `/${container}/a/b`, request)).status, 201);
    }
    for await (const id of contentStore.list()) await contentStore.delete(id);
    // Removed in the catalog: a request would also wake the reaper.
    await lab.service.service.context.catalog.remove("devstoreaccount1", "removed");
    const { damagedBlobs } = await backUp({ engine, contentStore, to: join(folder, "copy") });
    assert.deepEqual(damagedBlobs, ["(removed container 1)/a/b", "devstoreaccount1/orders/a/b"]);
  });

  it("may be given a folder name that ends in a slash", async () => {
    await backUp({ engine, contentStore, to: `${join(folder, "copy")}/` });
    assert.deepEqual(readdirSync(folder).sort(), ["copy", "data"]);
  });

  it("is refused before anything is copied if the target exists", async () => {
    const link = join(folder, "link");
    symlinkSync(join(folder, "nowhere"), link);
    for (const to of [link, engine.path, `${engine.path}/`, ""]) {
      const onProgress = () => assert.fail("Something was copied.");
      await assert.rejects(backUp({ engine, contentStore, to, onProgress }), /already exists/);
    }
    assert.equal(existsSync(`${link}.part`), false);
  });

  it("fails with advice if the system cannot create the folder", async () => {
    writeFileSync(join(folder, "file"), "");
    for (const to of [join(folder, "file", "copy"), join(folder, "file", "of", "copies")]) {
      await assert.rejects(backUp({ engine, contentStore, to }), (error: Error) => {
        assert.ok(
          error.message.startsWith(`${to} cannot be created; name a folder in a writable place`),
        );
        return true;
      });
    }
  });
});

function listOf(blocks: string): string {
  return `<BlockList>${blocks}</BlockList>`;
}
