import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import {
  type AtomicWrite,
  CALL_MS_MAX,
  type CommitResult,
  type Engine,
  EngineError,
  type Entry,
  type Key,
  type KeyRange,
  type ScanEnd,
  type ScanHints,
  type Visit,
} from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { NOTHING_OPTIONAL } from "../engine/test-decorated.ts";
import { LosingEngine } from "../engine/test-losing-engine.ts";
import { draftHeadKey } from "./blob-keys.ts";
import type { BlobRecord } from "./blob-record.ts";
import { digestOf } from "./content-life/content-digest.ts";
import { BLOCK, BlobLab, LabClock } from "./test-blob-lab.ts";

const SMALL = Buffer.alloc(1000, 1);
const OTHER = Buffer.alloc(1000, 2);
const LIST = "<BlockList><Latest>AAAA</Latest><Latest>BBBB</Latest></BlockList>";
const NAME = { account: "devstoreaccount1", container: "docs", blob: "a" };

describe("A blob that changes between two reads of a request", () => {
  let engine: InterruptedEngine;
  let lab: BlobLab;

  beforeEach(async () => {
    const clock = new LabClock();
    engine = new InterruptedEngine(new MemoryEngine({ clock }));
    lab = await BlobLab.open({ clock, engine });
    await lab.must("PUT", "/docs?restype=container");
  });
  afterEach(() => lab.close());

  it("is returned as it is after the change", async () => {
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: SMALL });
    const row = await rowKey();
    engine.before({ get: row }, () => lab.must("PUT", "/docs/a", { headers: BLOCK, body: OTHER }));
    assert.deepEqual((await lab.must("GET", "/docs/a")).body, OTHER);
    assert.ok(engine.wasInterrupted);
  });

  it("is created in the new container if another server has recreated the container", async () => {
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: SMALL });
    const change = async () => {
      await lab.must("DELETE", "/docs?restype=container");
      await lab.service.service.context.reaper.reap();
      await lab.must("PUT", "/docs?restype=container");
    };
    // On its first request, it has just read where the container is.
    const other = await BlobLab.open({ clock: lab.clock, engine });
    const { key } = await lab.service.service.context.blobs.read(NAME);
    engine.before({ get: key }, change);
    const headers = { ...BLOCK, "If-None-Match": "*" };
    await other.must("PUT", "/docs/a", { headers, body: OTHER });
    assert.ok(engine.wasInterrupted);
    assert.deepEqual((await lab.must("GET", "/docs/a")).body, OTHER);
    await other.close();
  });

  // The request has read which draft there is; before its scan, the whole draft is freed.
  it("has its blocks chosen from its state after the change", async () => {
    await putBlocks();
    engine.before({ scan: await draftId() }, commitAndFree);
    const body = "<BlockList><Latest>BBBB</Latest></BlockList>";
    await lab.must("PUT", "/docs/a?comp=blocklist", { body });
    assert.ok(engine.wasInterrupted);
    assert.deepEqual((await lab.must("GET", "/docs/a")).body, OTHER);
    await lab.assertTidy();
  });

  it("has its committed blocks chosen, and listed, from its state after the change", async () => {
    const commit = (blocks: string) =>
      lab.send("PUT", "/docs/a?comp=blocklist", { body: `<BlockList>${blocks}</BlockList>` });
    const interrupted = async () => {
      await putBlocks();
      await lab.must("PUT", "/docs/a?comp=blocklist", { body: LIST });
      // So that the collector has no reason to read the list.
      await lab.assertTidy();
      await lab.must("PUT", "/docs/a?comp=block&blockid=CCCC", { body: OTHER });
      engine.before({ scan: await listId() }, async () => {
        await commit("<Latest>CCCC</Latest>");
        await lab.assertTidy();
      });
    };
    await interrupted();
    assert.equal((await commit("<Committed>CCCC</Committed>")).status, 201);
    assert.ok(engine.wasInterrupted);
    await interrupted();
    const { body } = await lab.must("GET", "/docs/a?comp=blocklist");
    assert.deepEqual(body.toString().match(/<Name>.*?</g), ["<Name>CCCC<"]);
    await lab.assertTidy();
  });

  it("has its blocks listed as they are after the change", async () => {
    await putBlocks();
    engine.before({ scan: await draftId() }, commitAndFree);
    const { body } = await lab.must("GET", "/docs/a?comp=blocklist&blocklisttype=all");
    assert.ok(engine.wasInterrupted);
    const [committed = "", uncommitted = ""] = body.toString().split("<UncommittedBlocks");
    assert.equal(committed.match(/<Name>/g)?.length, 2);
    assert.ok(!uncommitted.includes("<Name>"));
  });

  it("is copied as it is after the change", async () => {
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: SMALL });
    const change = () => lab.must("PUT", "/docs/a", { headers: BLOCK, body: OTHER });
    engine.before({ get: await rowKey() }, change);
    const source = "http://127.0.0.1:10000/devstoreaccount1/docs/a";
    await lab.must("PUT", "/docs/b", { headers: { "x-ms-copy-source": source } });
    assert.ok(engine.wasInterrupted);
    assert.deepEqual((await lab.must("GET", "/docs/b")).body, OTHER);
  });

  it("is copied onto itself as it is after the change, which the source conditions apply to", async () => {
    const source = "http://127.0.0.1:10000/devstoreaccount1/docs/a";
    const change = () => lab.must("PUT", "/docs/a", { headers: BLOCK, body: OTHER });
    const interrupted = async () => {
      await putBlocks();
      const { headers } = await lab.must("PUT", "/docs/a?comp=blocklist", { body: LIST });
      // So that the collector has no reason to read the list.
      await lab.assertTidy();
      engine.before({ scan: await listId() }, change);
      return headers.get("etag") ?? "";
    };
    const copies = { "x-ms-copy-source": source, "x-ms-requires-sync": "true" };
    await interrupted();
    const { headers } = await lab.must("PUT", "/docs/a", { headers: copies });
    assert.ok(engine.wasInterrupted);
    assert.equal(headers.get("x-ms-content-crc64"), digestOf(OTHER, { md5: false }).crc64);
    assert.deepEqual((await lab.must("GET", "/docs/a")).body, OTHER);

    const condition = { "x-ms-source-if-match": await interrupted() };
    await lab.refused("412 SourceConditionNotMet", "PUT", "/docs/a", {
      headers: { ...copies, ...condition },
    });
    await lab.assertTidy();
  });

  it("is not read again after the time limit of a call", async () => {
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: SMALL });
    const looks = await everyLook(
      async () => ({ get: await rowKey() }),
      () => lab.must("PUT", "/docs/a", { headers: BLOCK, body: OTHER }),
      () => lab.refused("503 ServerBusy", "GET", "/docs/a"),
    );
    assert.equal(looks, 2);
  });

  it("has its blocks not read again after the time limit of a call", async () => {
    await putBlocks();
    const lists = "/docs/a?comp=blocklist&blocklisttype=all";
    const looks = await everyLook(
      async () => ({ scan: await draftId() }),
      () => commitAndFree().then(putBlocks),
      () => lab.refused("503 ServerBusy", "GET", lists),
    );
    assert.equal(looks, 2);
  });

  it("is reported as corrupt immediately if its uncommitted blocks cannot be read", async () => {
    await putBlocks();
    engine.before({ scan: await draftId() }, async () => {
      throw new EngineError("Corrupt", "A page is damaged.");
    });
    await lab.refused("500 StoredDataDamaged", "PUT", "/docs/a?comp=blocklist", { body: LIST });
  });

  it("is reported as corrupt if its content is lost, until it is replaced", async () => {
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: SMALL });
    await lose(await rowKey());
    await lab.refused("500 StoredDataDamaged", "GET", "/docs/a");
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: OTHER });
    assert.deepEqual((await lab.must("GET", "/docs/a")).body, OTHER);
  });

  it("is reported as corrupt if the head of its draft is lost, until it is replaced", async () => {
    await putBlocks();
    await lose(draftHeadKey(await draftId()));
    const block = "/docs/a?comp=block&blockid=CCCC";
    await lab.refused("500 StoredDataDamaged", "PUT", block, { body: SMALL });
    await lab.refused("500 StoredDataDamaged", "PUT", "/docs/a?comp=blocklist", { body: LIST });
    const lists = "/docs/a?comp=blocklist&blocklisttype=all";
    await lab.refused("500 StoredDataDamaged", "GET", lists);
    // Replacing the blob needs nothing of the draft.
    await lab.must("PUT", "/docs/a", { headers: BLOCK, body: SMALL });
    await lab.must("PUT", block, { body: OTHER });
    await lab.assertTidy();
  });

  /** Runs `change` before every such read of `request`; two of the changes take longer than a call may. */
  async function everyLook(
    next: () => Promise<Read>,
    change: () => Promise<unknown>,
    request: () => Promise<unknown>,
  ): Promise<number> {
    let looks = 0;
    const interrupt = async () => {
      assert(++looks <= 9, "The request retries without end.");
      lab.clock.ms += CALL_MS_MAX / 2 + 1;
      await change();
      engine.before(await next(), interrupt);
    };
    engine.before(await next(), interrupt);
    await request();
    return looks;
  }

  async function putBlocks(): Promise<void> {
    await lab.must("PUT", "/docs/a?comp=block&blockid=AAAA", { body: SMALL });
    await lab.must("PUT", "/docs/a?comp=block&blockid=BBBB", { body: OTHER });
  }

  async function commitAndFree(): Promise<void> {
    await lab.must("PUT", "/docs/a?comp=blocklist", { body: LIST });
    await lab.service.collector.collect();
  }

  async function record(): Promise<BlobRecord> {
    return (await lab.service.service.context.blobs.read(NAME)).record;
  }

  async function rowKey(): Promise<Key> {
    const content = (await record()).blob?.content;
    assert.ok(content?.in === "row");
    return lab.service.service.context.contents.rowKey(content.id);
  }

  async function listId(): Promise<string> {
    const content = (await record()).blob?.content;
    assert.ok(content?.in === "list");
    return content.id;
  }

  async function draftId(): Promise<string> {
    const { draft } = await record();
    assert.ok(draft);
    return draft.id;
  }

  async function lose(key: Key): Promise<void> {
    const write = { version: engine.nextVersion(), checks: [], puts: [], deletes: [key] };
    assert.ok((await engine.commit(write)).committed);
  }
});

describe("A blob that other requests keep changing", () => {
  it("is not changed after the time limit of a call", async () => {
    const clock = new LabClock();
    const engine = new LosingEngine({ clock });
    const lab = await BlobLab.open({ clock, engine });
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/log", { headers: { "x-ms-blob-type": "AppendBlob" } });
    await lab.must("PUT", "/docs/a?comp=block&blockid=AAAA", { body: SMALL });
    await lab.must("PUT", "/docs/a?comp=block&blockid=BBBB", { body: OTHER });
    engine.pass = (milliseconds) => {
      clock.ms += milliseconds;
    };
    for (const [path, request] of [
      ["/docs/b", { headers: BLOCK, body: SMALL }],
      ["/docs/log?comp=appendblock", { body: SMALL }],
      ["/docs/a?comp=blocklist", { body: LIST }],
    ] as const) {
      await lab.refused("503 ServerBusy", "PUT", path, request);
      assert.equal(engine.takeLost(), 2);
    }
    engine.pass = undefined;
    await lab.assertTidy();
    await lab.close();
  });
});

/** A read to interrupt: of one key, or of the entries of a draft. */
type Read = { readonly get: Key } | { readonly scan: string };

/** An engine that runs something before one of a request's reads. */
class InterruptedEngine implements Engine {
  readonly supports = NOTHING_OPTIONAL;
  wasInterrupted = false;
  readonly name = "interrupted";
  readonly keyBytesMax: number;
  readonly #engine: Engine;
  #read: Read | undefined;
  #interrupt: () => Promise<unknown> = async () => {};

  constructor(engine: Engine) {
    this.#engine = engine;
    this.keyBytesMax = engine.keyBytesMax;
  }

  before(read: Read, interrupt: () => Promise<unknown>): void {
    this.wasInterrupted = false;
    this.#read = read;
    this.#interrupt = interrupt;
  }

  async get(keys: readonly Key[], bytesMax?: number): Promise<(Entry | undefined)[]> {
    const read = this.#read;
    if (read !== undefined && "get" in read && keys.some((key) => textOf(key) === textOf(read.get)))
      await this.#interrupted();
    return this.#engine.get(keys, bytesMax);
  }

  async scan(range: KeyRange, visit: Visit, hints?: ScanHints): Promise<ScanEnd> {
    const read = this.#read;
    if (read !== undefined && "scan" in read && textOf(range.start).includes(read.scan)) {
      await this.#interrupted();
    }
    return this.#engine.scan(range, visit, hints);
  }

  nextVersion(): number {
    return this.#engine.nextVersion();
  }

  newestCommit(): number | undefined {
    return this.#engine.newestCommit();
  }

  commit(write: AtomicWrite): Promise<CommitResult> {
    return this.#engine.commit(write);
  }

  close(): Promise<void> {
    return this.#engine.close();
  }

  async #interrupted(): Promise<void> {
    this.#read = undefined;
    this.wasInterrupted = true;
    await this.#interrupt();
  }
}

function textOf({ partition, sort }: Key): string {
  return Buffer.concat([partition, sort]).toString("latin1");
}
