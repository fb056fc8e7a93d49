import assert from "node:assert/strict";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it, type TestContext } from "node:test";
import { FileContentStore } from "../content/file-content-store.ts";
import { openLmdbEngine } from "./lmdb/lmdb-engine.ts";
import { makeFolder } from "./make-folder.ts";

describe("A folder that makeFolder creates", () => {
  let root: string;
  beforeEach(() => {
    root = fs.mkdtempSync(join(tmpdir(), "rowhouse-folder-"));
  });
  afterEach(() => fs.rmSync(root, { recursive: true }));

  it("is flushed into its parent, as is every parent created with it", async (context) => {
    const path = join(root, "a", "b", "c");
    const flushed = await flushedBy(context, () => makeFolder(path));
    assert.deepEqual(flushed, [join(root, "a", "b"), join(root, "a"), root]);
    assert.deepEqual(await flushedBy(context, () => makeFolder(path)), []);
  });

  it("is distinguished from an existing one", () => {
    assert.equal(makeFolder(join(root, "a", "b")), true);
    assert.equal(makeFolder(join(root, "a", "b")), false);
    fs.writeFileSync(join(root, "file"), "");
    assert.throws(() => makeFolder(join(root, "file")), /EEXIST/);
    assert.throws(() => makeFolder(join(root, "file", "a")), /ENOTDIR/);
  });

  if (process.platform === "linux") {
    it("is refused with the name of a parent that cannot contain folders", () => {
      for (const path of ["/proc/none", "/proc/none/below"]) {
        assert.throws(() => makeFolder(path), /^Error: No folder can be created in \/proc\.$/);
      }
    });
  }

  it("may have a path relative to the working directory", async (context) => {
    const before = process.cwd();
    process.chdir(root);
    try {
      const flushed = await flushedBy(context, () => makeFolder("a/../b"));
      assert.equal(flushed.at(-1), process.cwd());
    } finally {
      process.chdir(before);
    }
  });

  it("is flushed for the data folder and for the contents folder in it", async (context) => {
    const data = join(root, "data");
    const ofEngine = await flushedBy(context, async () => {
      await (await openLmdbEngine({ path: data })).close();
    });
    assert.ok(ofEngine.includes(root) && ofEngine.includes(data), `${ofEngine}`);
    const ofContents = await flushedBy(context, async () => {
      await (await FileContentStore.open(join(data, "contents"))).close();
    });
    assert.deepEqual(ofContents, [data]);
  });
});

/** The paths that were flushed, in order. */
async function flushedBy(context: TestContext, work: () => unknown): Promise<string[]> {
  const flushed: string[] = [];
  const paths = new Map<number, string>();
  const { openSync, fsyncSync } = fs;
  context.mock.method(fs, "openSync", (path: string, flags: string, mode?: number) => {
    const descriptor = openSync(path, flags, mode);
    paths.set(descriptor, path);
    return descriptor;
  });
  context.mock.method(fs, "fsyncSync", (descriptor: number) => {
    fsyncSync(descriptor);
    flushed.push(paths.get(descriptor) ?? "");
  });
  syncBuiltinESMExports();
  try {
    await work();
  } finally {
    context.mock.restoreAll();
    syncBuiltinESMExports();
  }
  return flushed;
}
