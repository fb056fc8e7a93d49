import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { ContentId } from "../content/content-store.ts";
import { MemoryContentStore } from "../content/memory-content-store.ts";
import { RowContentStore } from "../content/row-content-store.ts";
import { type AtomicWrite, type CommitResult, EngineError } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { BodyAborted } from "../http/raw-request.ts";
import { putExtent } from "./extents.ts";
import { decodeNote, type Making } from "./notes.ts";
import { auditBlobs } from "./test-audit-blobs.ts";
import { BLOCK, BlobLab, LabClock } from "./test-blob-lab.ts";

const ROOT = "http://127.0.0.1:10000/devstoreaccount1";
const APPEND = { "x-ms-blob-type": "AppendBlob" };
const SMALL = Buffer.alloc(1000, 1);
/** Too large for a row. */
const LARGE = Buffer.alloc(300_000, 2);

describe("What blobs let go of", () => {
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
    it(`is freed when ${before.length} bytes are replaced by ${after.length}`, async () => {
      await lab.must("PUT", "/docs/a", { headers: BLOCK, body: before });
      await lab.must("PUT", "/docs/a", { headers: BLOCK, body: after });
      await lab.assertTidy();
      assert.deepEqual((await lab.must("GET", "/docs/a")).body, after);
      await lab.must("DELETE", "/docs/a");
      await assertEmpty();
    });
  }

  it("is freed when an append blob goes, whatever its blocks were", async () => {
    await lab.must("PUT", "/docs/log", { headers: APPEND });
    for (const body of [SMALL, LARGE, SMALL]) {
      await lab.must("PUT", "/docs/log?comp=appendblock", { body });
    }
    await lab.assertTidy();
    await lab.must("DELETE", "/docs/log");
    await assertEmpty();
  });

  it("is freed when blocks are replaced, passed over, or dropped with their blob", async () => {
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

  it("is freed when two requests replace one block at once", async () => {
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

  it("stays while it lives on in the next list of blocks, however late the last one is freed", async () => {
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

  it("stays in the last list while the first of three is read, and after that", async () => {
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

  it("is freed whichever of two notes a collector happens to see first", async () => {
    await putBlock("AAAA", LARGE);
    await putList("AAAA");
    await putBlock("BBBB", SMALL);
    await putList("AAAA", "BBBB");
    await lab.must("DELETE", "/docs/a");
    await Promise.all([lab.service.collector.collect(), lab.service.collector.collect()]);
    await assertEmpty();
  });

  it("of a copy is the copy's own", async () => {
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

  it("goes with a container", async () => {
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    await lab.must("PUT", "/docs/b", { headers: BLOCK, body: SMALL });
    await putBlock("AAAA", LARGE);
    await lab.must("PUT", "/docs/log", { headers: APPEND });
    await lab.must("PUT", "/docs/log?comp=appendblock", { body: SMALL });
    await lab.must("DELETE", "/docs?restype=container");
    await lab.service.service.context.reaper.reap();
    await assertEmpty();
  });

  it("stays while it is read, and no longer", async () => {
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

  it("is freed though the system does not delete one of many", async () => {
    const contents = new WatchedContentStore();
    const stubborn = await BlobLab.open({ contents });
    const { ids, notes } = stubborn.service.service.context;
    const all = Array.from({ length: 200 }, () => ids.next());
    for (const id of all) await contents.write(id, once(SMALL));
    const puts = all.map((id) => notes.garbage({ kind: "content", id }));
    const { engine } = stubborn;
    await engine.commit({ version: engine.nextVersion(), checks: [], puts, deletes: [] });
    const first = all[0]!;
    contents.beforeDelete = async (id) => assert.notEqual(id, first, "It cannot be deleted.");
    await assert.rejects(stubborn.service.collector.collect(), /cannot be deleted/);
    const left: ContentId[] = [];
    for await (const id of contents.list()) left.push(id);
    assert.deepEqual(left, [first]);

    contents.beforeDelete = undefined;
    await stubborn.assertTidy();
    await stubborn.close();
  });

  it("is freed by the next collector when this one is killed at any commit", async () => {
    for (let commits = 0, isKilled = true; isKilled; commits++) {
      const engine = new MortalEngine();
      const contents = new WatchedContentStore();
      // Its own collector is at it too, and dies as well.
      const killed = await BlobLab.open({ engine, contents, onError: () => {} });
      await killed.must("PUT", "/docs?restype=container");
      await killed.must("PUT", "/docs/log", { headers: APPEND });
      for (const body of [SMALL, LARGE, LARGE]) {
        await killed.must("PUT", "/docs/log?comp=appendblock", { body });
      }
      engine.commitsLeft = 1 + commits;
      contents.beforeDelete = async () => {
        // As a file that goes when the process is gone already.
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
      contents.beforeDelete = undefined;
      const next = await BlobLab.open({ engine, contents, clock: killed.clock });
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

  /** Nothing at all is stored any more. */
  async function assertEmpty(): Promise<void> {
    await lab.assertTidy();
    for await (const id of lab.contents!.list()) assert.fail(`Content ${id} is left.`);
  }
});

describe("What was in the making", () => {
  it("is freed when an upload breaks off, and nothing of it is seen", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    const headers = { ...BLOCK, "Content-Length": String(LARGE.length) };
    const upload = lab.send("PUT", "/docs/a", { headers, stream: breaking(200_000) });
    await assert.rejects(upload, BodyAborted);
    const block = lab.send("PUT", "/docs/a?comp=block&blockid=AAAA", {
      headers: { "Content-Length": String(LARGE.length) },
      stream: breaking(200_000),
    });
    await assert.rejects(block, BodyAborted);
    await lab.refused("404 BlobNotFound", "GET", "/docs/a");
    await lab.refused("404 BlobNotFound", "GET", "/docs/a?comp=blocklist&blocklisttype=all");
    await lab.assertTidy();
    await lab.close();
  });

  it("is freed when the list of its many blocks cannot be stored to its end", async () => {
    const lab = await BlobLab.open();
    const { engine } = lab;
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/a?comp=block&blockid=AAAA", { body: SMALL });
    const commit = engine.commit.bind(engine);
    let commits = 0;
    engine.commit = (write) =>
      // Behind the note of the list, and the first part of it.
      ++commits === 3
        ? Promise.reject(new EngineError("Unavailable", "The disk is full."))
        : commit(write);
    const body = `<BlockList>${"<Latest>AAAA</Latest>".repeat(501)}</BlockList>`;
    await lab.refused("503 ServerBusy", "PUT", "/docs/a?comp=blocklist", { body });
    await lab.assertTidy();
    await lab.must("GET", "/docs/a?comp=blocklist&blocklisttype=uncommitted");
    await lab.close();
  });

  it("is freed when it is refused at its end", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    const headers = { ...BLOCK, "Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA==" };
    await lab.refused("400 Md5Mismatch", "PUT", "/docs/a", { headers, body: LARGE });
    await lab.assertTidy();
    await lab.close();
  });

  it("is freed by the next process when this one is killed at any moment", async () => {
    // A content, a list and what was put to be copied: as they are when their maker stops there.
    const lab = await BlobLab.open();
    const { context } = lab.service.service;
    await context.contents.store(once(LARGE), LARGE.length);
    await context.notes.begin({ kind: "list", id: "nothing of it is there yet" });
    await lab.service.collector.collect();
    assert.equal((await auditBlobs(lab.engine, lab.contents)).notes, 2, "It is being made.");
    const { engine, contents, clock } = lab;
    const next = await BlobLab.open({ engine, contents: contents!, clock });
    await next.assertTidy();
    await lab.close();
    await next.close();
  });

  it("is noted by the upload before it, and freed by the next process when this one is killed", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    const { engine, contents, clock } = lab;
    assert.deepEqual(await auditBlobs(engine, contents), { leftOver: [], missing: [], notes: 1 });
    await lab.service.service.context.contents.store(once(LARGE), LARGE.length);
    await lab.service.collector.collect();
    const { leftOver, notes } = await auditBlobs(engine, contents);
    assert.deepEqual({ leftOver: leftOver.length, notes }, { leftOver: 1, notes: 1 });
    const next = await BlobLab.open({ engine, contents: contents!, clock });
    await next.assertTidy();
    assert.ok((await next.must("GET", "/docs/a")).body.equals(LARGE));
    await lab.close();
    await next.close();
  });

  it("is noted afresh where another process has given up what was noted before", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    const { engine, contents, clock } = lab;
    const other = await BlobLab.open({ engine, contents: contents!, clock });
    await other.assertTidy();
    await lab.must("PUT", "/docs/b", { headers: BLOCK, body: LARGE });
    await lab.assertTidy();
    assert.ok((await lab.must("GET", "/docs/b")).body.equals(LARGE));
    await lab.close();
    await other.close();
  });

  it("and never began is forgotten after a minute", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    lab.clock.ms += 59_000;
    await lab.service.collector.collect();
    assert.equal((await auditBlobs(lab.engine, lab.contents)).notes, 1);
    lab.clock.ms += 2000;
    await lab.service.collector.collect();
    assert.equal((await auditBlobs(lab.engine, lab.contents)).notes, 0);
    await lab.close();
  });

  it("and is forgotten is freed though its note could not be deleted at first", async () => {
    const clock = new LabClock();
    const engine = new MortalEngine({ clock });
    const lab = await BlobLab.open({ engine, clock });
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    clock.ms += 61_000;
    engine.commitsLeft = 0;
    await assert.rejects(lab.service.collector.collect(), isUnavailable);
    engine.commitsLeft = Number.POSITIVE_INFINITY;
    await lab.assertTidy();
    await lab.close();
  });

  it("leaves nothing of what was to be noted next when it is given up", async () => {
    const lab = await BlobLab.open();
    const { notes } = lab.service.service.context;
    const making = await notes.beginContent();
    const { key, value } = making.spare;
    const next = decodeNote(key, { value, version: 1 });
    assert.equal(notes.isLeftOver(next), false);
    making.giveUp();
    assert.equal(notes.isLeftOver(next), true);
    await lab.assertTidy();
    await lab.close();
  });

  it("does not come after it was freed, as a commit may whose process is dead", async () => {
    const lab = await BlobLab.open({ inRows: true });
    const { engine, clock } = lab;
    const next = await BlobLab.open({ engine, inRows: true, clock });
    const { contents, notes } = lab.service.service.context;
    const content = contents.store(
      interrupted(LARGE, async () => next.assertTidy()),
      LARGE.length,
    );
    await assert.rejects(content, isUnavailable);
    const list = await notes.begin({ kind: "list", id: "00000000001aaaaa" });
    await next.assertTidy();
    await assert.rejects(
      list.put([putExtent("00000000001aaaaa", 3, { bytes: SMALL })]),
      isUnavailable,
    );
    const from = "00000000002aaaaa";
    const rows = new RowContentStore(engine, KEY_SPACES.blobContents);
    await rows.write(from, once(LARGE));
    await assert.rejects(rows.copy(from, "00000000003aaaaa", list.check), isUnavailable);
    await rows.delete(from);
    // Without a note of it nobody would find what came late.
    assert.deepEqual((await auditBlobs(engine)).leftOver, []);
    await lab.close();
    await next.close();
  });

  it("stays while a process copies everything, and no longer", async () => {
    const lab = await BlobLab.open();
    const { engine, contents, clock } = lab;
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    const hold = await lab.service.service.context.notes.hold();
    await lab.must("DELETE", "/docs/a");
    await lab.service.collector.collect();
    assert.equal((await auditBlobs(engine, contents)).leftOver.length, 1);
    const deletion = { version: engine.nextVersion(), checks: [hold.check], puts: [] };
    const { committed } = await engine.commit({ ...deletion, deletes: [hold.note] });
    assert.ok(committed);
    hold.settle();
    await lab.assertTidy();

    // One that did not come to its end.
    const dead = await BlobLab.open({ engine, contents: contents!, clock });
    await dead.service.service.context.notes.hold();
    await dead.close();
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    await lab.must("DELETE", "/docs/a");
    await lab.assertTidy();
    await lab.close();
  });

  it("is not freed before whoever is taken for dead can find out that it does not hold", async () => {
    const contents = new WatchedContentStore();
    const lab = await BlobLab.open({ contents });
    const { engine } = lab;
    const other = await BlobLab.open({ engine, contents, clock: lab.clock });
    await lab.must("PUT", "/docs?restype=container");
    const { notes } = lab.service.service.context;
    const first = await notes.hold();
    // More than a collector looks at in one go.
    for (let i = 0; i < 70; i++) {
      await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
      await lab.must("DELETE", "/docs/a");
    }
    let hold: Promise<Making> | undefined;
    /** By content: the service's own collector may be at it, too, and find the same ones. */
    const held = new Map<ContentId, boolean>();
    contents.beforeDelete = async (id) => {
      // In the midst of its work, and in a process with the number of the collector's, hence of a dead one.
      hold ??= other.service.service.context.notes.hold();
      const [entry] = await engine.get([(await hold).note]);
      if (!held.has(id)) held.set(id, entry !== undefined);
    };
    const deletes = [first.note];
    await engine.commit({ version: engine.nextVersion(), checks: [], puts: [], deletes });
    await lab.service.collector.collect();
    const answers = [...held.values()];
    assert.equal(answers.length, 70);
    assert.equal(answers[0], true);
    assert.equal(answers.at(-1), false);
    await other.close();
    await lab.close();
  });

  for (const happened of [true, false]) {
    it(`stays while nobody knows whether its commit happened, which it ${happened ? "did" : "did not"}`, async () => {
      const clock = new LabClock();
      const engine = new DoubtfulEngine({ clock });
      const lab = await BlobLab.open({ clock, engine });
      await lab.must("PUT", "/docs?restype=container");
      const put = { headers: BLOCK, body: LARGE };
      // A spare, so that the next commit is the one by which the blob takes its content.
      await lab.must("PUT", "/docs/before", put);
      engine.loses = happened ? "the answer" : "the commit";
      await lab.refused("500 OperationTimedOut", "PUT", "/docs/a", put);
      await lab.assertTidy();
      if (happened) assert.deepEqual((await lab.must("GET", "/docs/a")).body, LARGE);
      else await lab.refused("404 BlobNotFound", "GET", "/docs/a");
      await lab.close();
    });
  }

  it("is made of what there is when another process frees what it was made from", async () => {
    const clock = new LabClock();
    const engine = new InterruptedEngine({ clock });
    const lab = await BlobLab.open({ clock, engine });
    const other = await BlobLab.open({ clock, engine, contents: lab.contents! });
    await lab.must("PUT", "/docs?restype=container");
    for (const id of ["AAAA", "BBBB"]) {
      await lab.must("PUT", `/docs/a?comp=block&blockid=${id}`, { body: LARGE });
    }
    const body = "<BlockList><Latest>AAAA</Latest><Latest>BBBB</Latest></BlockList>";
    await lab.must("PUT", "/docs/a?comp=blocklist", { body });
    await lab.assertTidy();
    engine.beforeCommit = async () => {
      await other.must("DELETE", "/docs/a");
      await other.assertTidy();
      await other.close();
    };
    const source = "http://127.0.0.1:10000/devstoreaccount1/docs/a";
    const headers = { "x-ms-copy-source": source };
    await lab.refused("404 BlobNotFound", "PUT", "/docs/b", { headers });
    await lab.refused("404 BlobNotFound", "GET", "/docs/b");
    await lab.assertTidy();
    await lab.close();
  });

  it("is freed also where another process gives up a copy before its contents are there", async () => {
    const contents = new WatchedContentStore();
    const lab = await BlobLab.open({ contents });
    const { engine, clock } = lab;
    const other = await BlobLab.open({ engine, contents, clock });
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/log", { headers: APPEND });
    await lab.must("PUT", "/docs/log?comp=appendblock", { body: LARGE });
    contents.beforeCopy = () => other.assertTidy();
    const headers = { "x-ms-copy-source": `${ROOT}/docs/log` };
    await lab.refused("503 ServerBusy", "PUT", "/docs/b", { headers });
    await lab.assertTidy();
    assert.ok((await lab.must("GET", "/docs/log")).body.equals(LARGE));
    await lab.close();
    await other.close();
  });

  it("is freed when a copy is killed at any of its steps", async () => {
    for (let steps = 0, isKilled = true; isKilled; steps++) {
      const engine = new MortalEngine();
      const contents = new WatchedContentStore();
      const killed = await BlobLab.open({ engine, contents, onError: () => {} });
      await killed.must("PUT", "/docs?restype=container");
      await killed.must("PUT", "/docs/log", { headers: APPEND });
      for (const body of [LARGE, SMALL, LARGE]) {
        await killed.must("PUT", "/docs/log?comp=appendblock", { body });
      }
      engine.commitsLeft = steps;
      contents.beforeCopy = async () => {
        if (engine.commitsLeft-- <= 0) throw new EngineError("Unavailable", "It is killed.");
      };
      const headers = { "x-ms-copy-source": `${ROOT}/docs/log` };
      isKilled = (await killed.send("PUT", "/docs/b", { headers })).status !== 202;
      engine.commitsLeft = Number.POSITIVE_INFINITY;
      const next = await BlobLab.open({ engine, contents, clock: killed.clock });
      await next.assertTidy();
      assert.equal((await next.send("GET", "/docs/b")).status, isKilled ? 404 : 200);
      await killed.close();
      await next.close();
      assert.ok(steps < 100);
    }
  });

  it("cannot become a blob's any more once another process has given it up", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    const { engine, contents, clock } = lab;
    const other = await BlobLab.open({ engine, contents: contents!, clock });
    const answer = await lab.send("PUT", "/docs/a", {
      headers: { ...BLOCK, "Content-Length": String(LARGE.length) },
      stream: interrupted(LARGE, () => other.service.collector.collect()),
    });
    assert.equal(answer.status, 503);
    await lab.refused("404 BlobNotFound", "GET", "/docs/a");
    await other.assertTidy();
    await lab.close();
    await other.close();
  });
});

/** As an engine behind a network that breaks: of one commit nobody hears how it ended. */
class DoubtfulEngine extends MemoryEngine {
  loses: "the commit" | "the answer" | undefined;

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    const { loses } = this;
    this.loses = undefined;
    if (loses === undefined) return super.commit(write);
    if (loses === "the answer") await super.commit(write);
    throw new EngineError("Unknown", "The outcome of a commit is not known.");
  }
}

/** As the disk of a process that is killed behind so many commits. */
class MortalEngine extends MemoryEngine {
  commitsLeft = Number.POSITIVE_INFINITY;

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    if (this.commitsLeft-- <= 0) throw new EngineError("Unavailable", "The process is killed.");
    return super.commit(write);
  }
}

/** Where something comes between a request's first steps and its first commit. */
class InterruptedEngine extends MemoryEngine {
  beforeCommit: (() => Promise<void>) | undefined;

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    const { beforeCommit } = this;
    this.beforeCommit = undefined;
    await beforeCommit?.();
    return super.commit(write);
  }
}

/** Tells of what is about to be freed, or copied. */
class WatchedContentStore extends MemoryContentStore {
  beforeDelete: ((id: ContentId) => Promise<void>) | undefined;
  beforeCopy: (() => Promise<void>) | undefined;

  override async copy(from: ContentId, to: ContentId): Promise<void> {
    await this.beforeCopy?.();
    await super.copy(from, to);
  }

  override async delete(id: ContentId): Promise<void> {
    await this.beforeDelete?.(id);
    await super.delete(id);
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof EngineError && error.code === "Unavailable";
}

async function* breaking(bytes: number): AsyncGenerator<Uint8Array> {
  yield Buffer.alloc(bytes);
  throw new BodyAborted();
}

async function* once(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes;
}

async function* interrupted(
  bytes: Buffer,
  meanwhile: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  yield bytes.subarray(0, 100_000);
  await meanwhile();
  yield bytes.subarray(100_000);
}
