import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KEY_SPACES } from "../../catalog/key-spaces.ts";
import type { ContentId } from "../../content/content-store.ts";
import { RowContentStore } from "../../content/row-content-store.ts";
import { type AtomicWrite, type CommitResult, EngineError } from "../../engine/engine.ts";
import { MemoryEngine } from "../../engine/memory-engine.ts";
import { BodyAborted } from "../../wire/body-source.ts";
import type { BlobContext } from "../blob-operation.ts";
import { auditBlobs } from "../test-audit-blobs.ts";
import { APPEND, BLOCK, BlobLab, LabClock, once, ROOT } from "../test-blob-lab.ts";
import { MortalEngine, WatchedContentStore } from "../test-unsteady-stores.ts";
import { putExtent } from "./extents.ts";
import { decodeNote, type Making } from "./notes.ts";

const SMALL = Buffer.alloc(1000, 1);
/** Too large for a row. */
const LARGE = Buffer.alloc(300_000, 2);
const LIST = "00000000009aaaaa";

describe("Content in the making", () => {
  it("is freed and never visible if an upload breaks off", async () => {
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

  it("is freed if its long block list cannot be stored completely", async () => {
    const lab = await BlobLab.open();
    const { engine } = lab;
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/a?comp=block&blockid=AAAA", { body: SMALL });
    const commit = engine.commit.bind(engine);
    let commits = 0;
    engine.commit = (write) =>
      // After the list's note and the first part of the list.
      ++commits === 3
        ? Promise.reject(new EngineError("Unavailable", "The disk is full."))
        : commit(write);
    const body = `<BlockList>${"<Latest>AAAA</Latest>".repeat(501)}</BlockList>`;
    await lab.refused("503 ServerBusy", "PUT", "/docs/a?comp=blocklist", { body });
    await lab.assertTidy();
    await lab.must("GET", "/docs/a?comp=blocklist&blocklisttype=uncommitted");
    await lab.close();
  });

  it("is freed if it is refused after its last byte", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    const headers = { ...BLOCK, "Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA==" };
    await lab.refused("400 Md5Mismatch", "PUT", "/docs/a", { headers, body: LARGE });
    await lab.assertTidy();
    await lab.close();
  });

  /** How a maker that is killed leaves a thing in the making, and how many things are then stored of it. */
  const killed: Record<string, { of: (context: BlobContext) => Promise<unknown>; stored: number }> =
    {
      "before the first byte of a content": {
        of: ({ notes }) => notes.beginContent(),
        stored: 0,
      },
      "in the middle of a content": {
        of: async ({ contents }) => {
          const { parts, waiting } = stalled(Buffer.alloc(2 << 20));
          void contents.store(parts, 3 << 20);
          await waiting;
        },
        // In a content store, only a whole content is visible.
        stored: 1,
      },
      "after a content": {
        of: ({ contents }) => contents.store(once(LARGE), LARGE.length),
        stored: 1,
      },
      "before the first extent of a list": {
        of: ({ notes }) => notes.begin({ kind: "list", id: LIST }),
        stored: 0,
      },
      "in the middle of a list": {
        of: async ({ notes, contents }) => {
          const list = await notes.begin({ kind: "list", id: LIST });
          await list.put([putExtent(LIST, 1000, { bytes: SMALL })]);
          const { stored } = await contents.store(once(LARGE), LARGE.length);
          await list.put([putExtent(LIST, 1000 + LARGE.length, stored!)]);
        },
        // The list, and the content that is in it.
        stored: 2,
      },
    };
  for (const inRows of [true, false]) {
    for (const [moment, { of, stored }] of Object.entries(killed)) {
      it(`is freed by the next process if this one is killed ${moment} ${inRows ? "in rows" : "in a content store"}`, async () => {
        const lab = await BlobLab.open({ inRows });
        await of(lab.service.service.context);
        const { engine, contentStore, clock } = lab;
        const before = await auditBlobs(engine, contentStore);
        const isHidden = !inRows && moment === "in the middle of a content";
        assert.equal(before.leftOver.length, isHidden ? 0 : stored);
        assert.ok(before.notes > 0);
        await lab.service.collector.collect();
        // All of it is still in the making.
        assert.deepEqual(await auditBlobs(engine, contentStore), before);
        const next = await BlobLab.open({
          engine,
          clock,
          inRows,
          ...(contentStore && { contentStore }),
        });
        await next.assertTidy();
        await lab.close();
        await next.close();
      });
    }
  }

  it("is noted by the upload before it, and freed by the next process if this one is killed", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    const { engine, contentStore, clock } = lab;
    assert.deepEqual(await auditBlobs(engine, contentStore), {
      leftOver: [],
      missing: [],
      notes: 1,
    });
    await lab.service.service.context.contents.store(once(LARGE), LARGE.length);
    await lab.service.collector.collect();
    const { leftOver, notes } = await auditBlobs(engine, contentStore);
    assert.deepEqual({ leftOver: leftOver.length, notes }, { leftOver: 1, notes: 1 });
    const next = await BlobLab.open({ engine, contentStore: contentStore!, clock });
    await next.assertTidy();
    assert.ok((await next.must("GET", "/docs/a")).body.equals(LARGE));
    await lab.close();
    await next.close();
  });

  it("is noted again if another process has given up the earlier note", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    const { engine, contentStore, clock } = lab;
    const other = await BlobLab.open({ engine, contentStore: contentStore!, clock });
    await other.assertTidy();
    await lab.must("PUT", "/docs/b", { headers: BLOCK, body: LARGE });
    await lab.assertTidy();
    assert.ok((await lab.must("GET", "/docs/b")).body.equals(LARGE));
    await lab.close();
    await other.close();
  });

  it("that never began loses its note after a minute", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    lab.clock.ms += 59_000;
    await lab.service.collector.collect();
    assert.equal((await auditBlobs(lab.engine, lab.contentStore)).notes, 1);
    lab.clock.ms += 2000;
    await lab.service.collector.collect();
    assert.equal((await auditBlobs(lab.engine, lab.contentStore)).notes, 0);
    await lab.close();
  });

  it("that never began loses its note even if deleting the note fails at first", async () => {
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

  it("gives up its spare note when it is given up itself", async () => {
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

  it("cannot be stored after it was freed, even by a late commit", async () => {
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
    // Something stored too late, with no note left, would never be found.
    assert.deepEqual((await auditBlobs(engine)).leftOver, []);
    await lab.close();
    await next.close();
  });

  it("stays while a backup's hold exists, and is then freed, as after a killed backup", async () => {
    const lab = await BlobLab.open();
    const { engine, contentStore, clock } = lab;
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    const hold = await lab.service.service.context.notes.hold();
    await lab.must("DELETE", "/docs/a");
    await lab.service.collector.collect();
    assert.equal((await auditBlobs(engine, contentStore)).leftOver.length, 1);
    const deletion = { version: engine.nextVersion(), checks: [hold.check], puts: [] };
    const { committed } = await engine.commit({ ...deletion, deletes: [hold.note] });
    assert.ok(committed);
    hold.settle();
    await lab.assertTidy();

    // A process that died before it released its hold.
    const dead = await BlobLab.open({ engine, contentStore: contentStore!, clock });
    await dead.service.service.context.notes.hold();
    await dead.close();
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
    await lab.must("DELETE", "/docs/a");
    await lab.assertTidy();
    await lab.close();
  });

  it("is freed despite a hold of a process taken for dead only after that hold is deleted", async () => {
    const contentStore = new WatchedContentStore();
    const lab = await BlobLab.open({ contentStore });
    const { engine } = lab;
    const other = await BlobLab.open({ engine, contentStore, clock: lab.clock });
    await lab.must("PUT", "/docs?restype=container");
    const { notes } = lab.service.service.context;
    const first = await notes.hold();
    // A collector reads 64 notes at a time.
    for (let i = 0; i < 70; i++) {
      await lab.must("PUT", "/docs/a", { headers: BLOCK, body: LARGE });
      await lab.must("DELETE", "/docs/a");
    }
    let hold: Promise<Making> | undefined;
    /** Per content: the service's own collector may run at the same time and find the same contents. */
    const held = new Map<ContentId, boolean>();
    contentStore.beforeDelete = async (id) => {
      // In the middle of the collection. The other lab has this process's id, so its hold looks like a dead
      // process's.
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
    // The first 64 notes were read before the hold existed, so its snapshot does not contain their contents.
    assert.deepEqual(answers.slice(64), Array(6).fill(false));
    await other.close();
    await lab.close();
  });

  for (const happened of [true, false]) {
    it(`stays while the outcome of its commit is unknown, if the commit ${happened ? "succeeded" : "failed"}`, async () => {
      const clock = new LabClock();
      const engine = new DoubtfulEngine({ clock });
      const lab = await BlobLab.open({ clock, engine });
      await lab.must("PUT", "/docs?restype=container");
      const put = { headers: BLOCK, body: LARGE };
      // Leaves a spare, so that the next commit is the one that gives the blob its content.
      await lab.must("PUT", "/docs/before", put);
      engine.loses = happened ? "the answer" : "the commit";
      await lab.refused("500 OperationTimedOut", "PUT", "/docs/a", put);
      await lab.assertTidy();
      if (happened) assert.deepEqual((await lab.must("GET", "/docs/a")).body, LARGE);
      else await lab.refused("404 BlobNotFound", "GET", "/docs/a");
      await lab.close();
    });
  }

  it("of a copy is not created if another process deletes and frees the source meanwhile", async () => {
    const clock = new LabClock();
    const engine = new InterruptedEngine({ clock });
    const lab = await BlobLab.open({ clock, engine });
    const other = await BlobLab.open({ clock, engine, contentStore: lab.contentStore! });
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

  it("of a copy is freed if another process gives it up before its contents are stored", async () => {
    const contentStore = new WatchedContentStore();
    const lab = await BlobLab.open({ contentStore });
    const { engine, clock } = lab;
    const other = await BlobLab.open({ engine, contentStore, clock });
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/log", { headers: APPEND });
    await lab.must("PUT", "/docs/log?comp=appendblock", { body: LARGE });
    contentStore.beforeCopy = () => other.assertTidy();
    const headers = { "x-ms-copy-source": `${ROOT}/docs/log` };
    await lab.refused("503 ServerBusy", "PUT", "/docs/b", { headers });
    await lab.assertTidy();
    assert.ok((await lab.must("GET", "/docs/log")).body.equals(LARGE));
    await lab.close();
    await other.close();
  });

  it("of a copy is freed if the process is killed at any step", async () => {
    for (let steps = 0, isKilled = true; isKilled; steps++) {
      const engine = new MortalEngine();
      const contentStore = new WatchedContentStore();
      const killed = await BlobLab.open({ engine, contentStore, onError: () => {} });
      await killed.must("PUT", "/docs?restype=container");
      await killed.must("PUT", "/docs/log", { headers: APPEND });
      for (const body of [LARGE, SMALL, LARGE]) {
        await killed.must("PUT", "/docs/log?comp=appendblock", { body });
      }
      engine.commitsLeft = steps;
      contentStore.beforeCopy = async () => {
        if (engine.commitsLeft-- <= 0) throw new EngineError("Unavailable", "It is killed.");
      };
      const headers = { "x-ms-copy-source": `${ROOT}/docs/log` };
      isKilled = (await killed.send("PUT", "/docs/b", { headers })).status !== 202;
      engine.commitsLeft = Number.POSITIVE_INFINITY;
      const next = await BlobLab.open({ engine, contentStore, clock: killed.clock });
      await next.assertTidy();
      assert.equal((await next.send("GET", "/docs/b")).status, isKilled ? 404 : 200);
      await killed.close();
      await next.close();
      assert.ok(steps < 100);
    }
  });

  it("cannot be committed to a blob after another process has given it up", async () => {
    const lab = await BlobLab.open();
    await lab.must("PUT", "/docs?restype=container");
    const { engine, contentStore, clock } = lab;
    const other = await BlobLab.open({ engine, contentStore: contentStore!, clock });
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

/** Acts like an engine behind a broken network: the outcome of one commit is unknown. */
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

/** Runs something between a request's first steps and its first commit. */
class InterruptedEngine extends MemoryEngine {
  beforeCommit: (() => Promise<void>) | undefined;

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    const { beforeCommit } = this;
    this.beforeCommit = undefined;
    await beforeCommit?.();
    return super.commit(write);
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof EngineError && error.code === "Unavailable";
}

/** Content whose rest never arrives; `waiting` resolves when a reader waits for it. */
function stalled(bytes: Buffer) {
  let reach = () => {};
  const waiting = new Promise<void>((resolve) => {
    reach = resolve;
  });
  async function* parts(): AsyncGenerator<Uint8Array> {
    yield bytes;
    reach();
    await new Promise(() => {});
  }
  return { parts: parts(), waiting };
}

async function* breaking(bytes: number): AsyncGenerator<Uint8Array> {
  yield Buffer.alloc(bytes);
  throw new BodyAborted();
}

async function* interrupted(
  bytes: Buffer,
  meanwhile: () => Promise<void>,
): AsyncGenerator<Uint8Array> {
  yield bytes.subarray(0, 100_000);
  await meanwhile();
  yield bytes.subarray(100_000);
}
