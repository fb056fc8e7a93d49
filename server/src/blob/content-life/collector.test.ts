import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { ContentId } from "../../content/content-store.ts";
import { EngineError } from "../../engine/engine.ts";
import { APPEND, BLOCK, BlobLab, once, ROOT } from "../test-blob-lab.ts";
import { MortalEngine, WatchedContentStore } from "../test-unsteady-stores.ts";

const SMALL = Buffer.alloc(1000, 1);
/** Too large for a row. */
const LARGE = Buffer.alloc(300_000, 2);

describe("Content of blobs", () => {
  let lab: BlobLab;

  beforeEach(async () => {
    lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
  });
  afterEach(() => lab.close());

  for (const [before, after] of [
    [SMALL, SMALL],
    [SMALL, LARGE],
    [LARGE, SMALL],
    [LARGE, LARGE],
    [LARGE, Buffer.alloc(0)],
  ] as const) {
    it(`is freed if ${before.length} bytes are replaced by ${after.length}`, async () => {
      await lab.must("PUT", "/docs/a", { headers: BLOCK, body: before });
      await lab.must("PUT", "/docs/a", { headers: BLOCK, body: after });
      await lab.assertTidy();
      assert.deepEqual((await lab.must("GET", "/docs/a")).body, after);
      await lab.must("DELETE", "/docs/a");
      await assertEmpty();
    });
  }

  it("is freed if an append blob is deleted, whatever the sizes of its blocks", async () => {
    await lab.must("PUT", "/docs/log", { headers: APPEND });
    for (const body of [SMALL, LARGE, SMALL]) {
      await lab.must("PUT", "/docs/log?comp=appendblock", { body });
    }
    await lab.assertTidy();
    await lab.must("DELETE", "/docs/log");
    await assertEmpty();
  });

  it("is freed if blocks are replaced, left out of a list, or deleted with their blob", async () => {
    await putBlock("AAAA", LARGE);
    await putBlock("AAAA", SMALL);
    await putBlock("BBBB", LARGE);
    await putBlock("CCCC", LARGE);
    await lab.assertTidy();
    await putList("BBBB", "AAAA", "BBBB");
    await lab.assertTidy();
    const content = Buffer.concat([LARGE, SMALL, LARGE]);
    assert.ok((await lab.must("GET", "/docs/a")).body.equals(content));
    await putBlock("DDDD", SMALL);
    await lab.must("DELETE", "/docs/a");
    await assertEmpty();
  });

  it("is freed if two requests replace a block concurrently", async () => {
    const { engine } = lab;
    await putBlock("AAAA", LARGE);
    const commit = engine.commit.bind(engine);
    engine.commit = async (write) => {
      engine.commit = commit;
      await putBlock("AAAA", LARGE);
      return commit(write);
    };
    await putBlock("AAAA", SMALL);
    await lab.assertTidy();
    await putList("AAAA");
    assert.ok((await lab.must("GET", "/docs/a")).body.equals(SMALL));
  });

  it("stays while a newer block list contains it, even if an older list is freed later", async () => {
    await putBlock("AAAA", LARGE);
    await putList("AAAA");
    for (const id of ["BBBB", "CCCC", "DDDD"]) {
      await putBlock(id, SMALL);
      await putList("AAAA", id);
    }
    await lab.assertTidy();
    const content = Buffer.concat([LARGE, SMALL]);
    assert.ok((await lab.must("GET", "/docs/a")).body.equals(content));
    await putList();
    await lab.assertTidy();
    await lab.must("DELETE", "/docs/a");
    await assertEmpty();
  });

  it("stays while the first of three block lists is read, and afterwards in the last list", async () => {
    await putBlock("AAAA", LARGE);
    await putList("AAAA");
    const { blobs, contents } = lab.service.service.context;
    const name = { account: "devstoreaccount1", container: "docs", blob: "a" };
    const { blob } = (await blobs.read(name)).record;
    const parts = contents.read(blob!, 0, blob!.size)[Symbol.asyncIterator]();
    await parts.next();
    for (const id of ["BBBB", "CCCC"]) {
      await putBlock(id, SMALL);
      await putList("AAAA", id);
      await lab.service.collector.collect();
    }
    await parts.return!();
    await lab.assertTidy();
    assert.ok((await lab.must("GET", "/docs/a")).body.equals(Buffer.concat([LARGE, SMALL])));
  });

  it("is freed in whatever order a collector reads two notes", async () => {
    await putBlock("AAAA", LARGE);
    await putList("AAAA");
    await putBlock("BBBB", SMALL);
    await putList("AAAA", "BBBB");
    await lab.must("DELETE", "/docs/a");
    await Promise.all([lab.service.collector.collect(), lab.service.collector.collect()]);
    await assertEmpty();
  });

  it("is not shared between a copy and its source", async () => {
    const source = { "x-ms-copy-source": `${ROOT}/docs/a` };
    for (const body of [SMALL, LARGE]) {
      await lab.must("PUT", "/docs/a", { headers: BLOCK, body });
      await lab.must("PUT", "/docs/b", { headers: source });
      await lab.must("DELETE", "/docs/a");
      await lab.assertTidy();
      assert.deepEqual((await lab.must("GET", "/docs/b")).body, body);
      await lab.must("DELETE", "/docs/b");
    }
    for (const id of ["AAAA", "BBBB"]) await putBlock(id, id === "AAAA" ? SMALL : LARGE);
    await putList("AAAA", "BBBB", "AAAA");
    await lab.must("PUT", "/docs/b", { headers: source });
    await lab.must("DELETE", "/docs/a");
    await lab.assertTidy();
    const content = Buffer.concat([SMALL, LARGE, SMALL]);
    assert.ok((await lab.must("GET", "/docs/b")).body.equals(content));
    await lab.must("DELETE", "/docs/b");
    await assertEmpty();
  });

  it("is freed if its container is deleted", async () => {
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    await lab.must("PUT", "/docs/b", { headers: BLOCK, body: SMALL });
    await putBlock("AAAA", LARGE);
    await lab.must("PUT", "/docs/log", { headers: APPEND });
    await lab.must("PUT", "/docs/log?comp=appendblock", { body: SMALL });
    await lab.must("DELETE", "/docs?restype=container");
    await lab.service.service.context.reaper.reap();
    await assertEmpty();
  });

  it("stays while it is being read, and is then freed", async () => {
    for (const prepare of [
      () => lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE }),
      async () => {
        await putBlock("AAAA", LARGE);
        await putBlock("BBBB", LARGE);
        await putList("AAAA", "BBBB");
      },
    ]) {
      await prepare();
      const { blobs, contents } = lab.service.service.context;
      const name = { account: "devstoreaccount1", container: "docs", blob: "a" };
      const { blob } = (await blobs.read(name)).record;
      const parts = contents.read(blob!, 0, blob!.size)[Symbol.asyncIterator]();
      const first = await parts.next();
      await lab.must("DELETE", "/docs/a");
      await lab.service.collector.collect();
      let bytes = first.value!.length;
      for (let part = await parts.next(); !part.done; part = await parts.next()) {
        bytes += part.value.length;
      }
      assert.equal(bytes, blob!.size);
      await assertEmpty();
    }
  });

  it("is freed even if the system fails to delete one of many", async () => {
    const contentStore = new WatchedContentStore();
    const stubborn = await BlobLab.open({ contentStore });
    const { ids, notes } = stubborn.service.service.context;
    const all = Array.from({ length: 200 }, () => ids.next());
    for (const id of all) await contentStore.write(id, once(SMALL));
    const puts = all.map((id) => notes.garbage({ kind: "content", id }));
    const { engine } = stubborn;
    await engine.commit({ version: engine.nextVersion(), checks: [], puts, deletes: [] });
    const first = all[0]!;
    contentStore.beforeDelete = async (id) => assert.notEqual(id, first, "It cannot be deleted.");
    await assert.rejects(stubborn.service.collector.collect(), /cannot be deleted/);
    const left: ContentId[] = [];
    for await (const id of contentStore.list()) left.push(id);
    assert.deepEqual(left, [first]);

    contentStore.beforeDelete = undefined;
    await stubborn.assertTidy();
    await stubborn.close();
  });

  it("is freed by the next collector if this one is killed at any commit", async () => {
    for (let commits = 0, isKilled = true; isKilled; commits++) {
      const engine = new MortalEngine();
      const contentStore = new WatchedContentStore();
      // The lab's own collector works at the same time, and dies as well.
      const killed = await BlobLab.open({ engine, contentStore, onError: () => {} });
      await killed.must("PUT", "/docs?restype=container");
      await killed.must("PUT", "/docs/log", { headers: APPEND });
      for (const body of [SMALL, LARGE, LARGE]) {
        await killed.must("PUT", "/docs/log?comp=appendblock", { body });
      }
      engine.commitsLeft = 1 + commits;
      contentStore.beforeDelete = async () => {
        // A file may still be deleted after the process has died.
        await new Promise((resolve) => setImmediate(resolve));
        if (engine.commitsLeft <= 0) throw new EngineError("Unavailable", "The process is killed.");
      };
      await killed.must("DELETE", "/docs/log");
      const collected = killed.service.collector.collect(0);
      isKilled = await collected.then(
        () => false,
        () => true,
      );
      engine.commitsLeft = Number.POSITIVE_INFINITY;
      contentStore.beforeDelete = undefined;
      const next = await BlobLab.open({ engine, contentStore, clock: killed.clock });
      await next.assertTidy();
      await killed.close();
      await next.close();
      assert.ok(commits < 100);
    }
  });

  async function putBlock(id: string, body: Buffer): Promise<void> {
    await lab.must("PUT", `/docs/a?comp=block&blockid=${id}`, { body });
  }

  async function putList(...ids: string[]): Promise<void> {
    const body = `<BlockList>${ids.map((id) => `<Latest>${id}</Latest>`).join("")}</BlockList>`;
    await lab.must("PUT", "/docs/a?comp=blocklist", { body });
  }

  /** Asserts that nothing at all is stored any more. */
  async function assertEmpty(): Promise<void> {
    await lab.assertTidy();
    for await (const id of lab.contentStore!.list()) assert.fail(`Content ${id} is left.`);
  }
});
