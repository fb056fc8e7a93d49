import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import type { AtomicWrite, CommitResult } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { BlobLab, LabClock } from "./test-blob-lab.ts";

const APPEND = "/docs/log?comp=appendblock";
const STATE = "x-ms-lease-state";

/** Counts commits, and lets other work proceed during each one, as a disk does. */
class CountingEngine extends MemoryEngine {
  commits = 0;

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    this.commits++;
    await new Promise((resolve) => setImmediate(resolve));
    return super.commit(write);
  }
}

describe("Appends to one blob", () => {
  let engine: CountingEngine;
  let lab: BlobLab;

  beforeEach(async () => {
    const clock = new LabClock();
    engine = new CountingEngine({ clock });
    lab = await BlobLab.open({ clock, engine });
    await lab.must("PUT", "/docs?restype=container");
    await lab.must("PUT", "/docs/log", { headers: { "x-ms-blob-type": "AppendBlob" } });
  });
  afterEach(() => lab.close());

  it("that arrive together share commits, in the order of arrival", async () => {
    engine.commits = 0;
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) => lab.must("PUT", APPEND, { body: text(i) })),
    );
    assert.ok(engine.commits < 20, `${engine.commits} commits`);
    for (const [i, { headers }] of answers.entries()) {
      assert.equal(headers.get("x-ms-blob-append-offset"), String(i * 10));
      assert.equal(headers.get("x-ms-blob-committed-block-count"), String(i + 1));
    }
    const etags = answers.map(({ headers }) => headers.get("etag"));
    assert.equal(new Set(etags).size, 200);
    const { body } = await lab.must("GET", "/docs/log");
    assert.equal(body.toString(), Array.from({ length: 200 }, (_, i) => text(i)).join(""));
    await lab.assertTidy();
  });

  it("to a leased blob need the lease id, and end a broken lease", async () => {
    const lease = (headers: Readonly<Record<string, string>>) =>
      lab.must("PUT", "/docs/log?comp=lease", { headers });
    const id = { "x-ms-lease-id": "c9da6455-213d-42c9-9a79-3e9149a57833" };
    const stateNow = async () => (await lab.must("HEAD", "/docs/log")).headers.get(STATE);
    await lease({
      ...{ "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" },
      "x-ms-proposed-lease-id": id["x-ms-lease-id"],
    });
    await assert.rejects(lab.must("PUT", APPEND, { body: "x" }));
    await lab.must("PUT", APPEND, { body: "x", headers: id });
    assert.equal(await stateNow(), "leased");
    await lease({ "x-ms-lease-action": "break" });
    assert.equal(await stateNow(), "broken");
    await lab.must("PUT", APPEND, { body: "x" });
    assert.equal(await stateNow(), "available");
  });

  it("that arrive together have ETags that no later blob of the same name has", async () => {
    const appends = Array.from({ length: 50 }, () => lab.must("PUT", APPEND, { body: "x" }));
    const etags = (await Promise.all(appends)).map(({ headers }) => headers.get("etag"));
    for (let times = 0; times < 50; times++) {
      await lab.must("DELETE", "/docs/log");
      const headers = { "x-ms-blob-type": "AppendBlob" };
      etags.push((await lab.must("PUT", "/docs/log", { headers })).headers.get("etag"));
    }
    assert.equal(new Set(etags).size, etags.length);
  });

  it("of 100 concurrent writers store every record whole, at the offset in its answer", async () => {
    const records = new Map<number, string>();
    await Promise.all(
      Array.from({ length: 100 }, async (_, writer) => {
        for (let i = 0; i < 30; i++) {
          const record = `${writer}:${i}|`.repeat(1 + ((writer * i) % 40));
          const { headers } = await lab.must("PUT", APPEND, { body: record });
          records.set(Number(headers.get("x-ms-blob-append-offset")), record);
        }
      }),
    );
    const { body } = await lab.must("GET", "/docs/log");
    const inOrder = [...records].sort(([a], [b]) => a - b).map(([, record]) => record);
    assert.equal(inOrder.length, 3000);
    assert.equal(body.toString(), inOrder.join(""));
  });

  it("check their position condition against the state that earlier appends left", async () => {
    const at = (position: number) =>
      lab.send("PUT", APPEND, {
        headers: { "x-ms-blob-condition-appendpos": String(position) },
        body: text(0),
      });
    const answers = await Promise.all([at(0), at(0), at(10), at(20), at(20), at(30)]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [201, 412, 201, 201, 412, 201],
    );
  });

  it("of many writers with the same ETag succeed for exactly one", async () => {
    let etag = (await lab.must("HEAD", "/docs/log")).headers.get("etag")!;
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, i) =>
          lab.send("PUT", APPEND, { headers: { "If-Match": etag }, body: text(i) }),
        ),
      );
      const winners = answers.filter(({ status }) => status === 201);
      assert.equal(winners.length, 1);
      etag = winners[0]!.headers.get("etag")!;
    }
  });

  it("of all sizes are stored whole", async () => {
    const sizes = [1, 70_000, 70_000, 131_072, 131_073, 5, 300_000, 7];
    const bodies = sizes.map((size, i) => Buffer.alloc(size, i + 1));
    await Promise.all(bodies.map((body) => lab.must("PUT", APPEND, { body })));
    const { body } = await lab.must("GET", "/docs/log");
    assert.equal(
      body.length,
      sizes.reduce((sum, size) => sum + size, 0),
    );
    let at = 0;
    const seen = new Set<number>();
    while (at < body.length) {
      const kind = body[at]!;
      seen.add(kind);
      const size = sizes[kind - 1]!;
      assert.ok(body.subarray(at, at + size).equals(bodies[kind - 1]!), `block ${kind}`);
      at += size;
    }
    assert.equal(seen.size, sizes.length);
    await lab.assertTidy();
  });

  it("continue if the blob's metadata changes between them", async () => {
    const work: Promise<unknown>[] = [];
    for (let i = 0; i < 50; i++) {
      work.push(lab.must("PUT", APPEND, { body: text(i) }));
      if (i % 10 === 5) {
        const headers = { "x-ms-meta-i": String(i) };
        work.push(lab.must("PUT", "/docs/log?comp=metadata", { headers }));
      }
    }
    await Promise.all(work);
    assert.equal((await lab.must("HEAD", "/docs/log")).headers.get("content-length"), "500");
  });

  it("are refused beyond the limit of 50,000 blocks", async () => {
    const { blobs } = lab.service.service.context;
    const name = { account: "devstoreaccount1", container: "docs", blob: "log" };
    await blobs.change(name, ({ record }) => ({
      record: { blob: { ...record.blob!, blocks: 49_998 } },
      result: undefined,
    }));
    const answers = await Promise.all(
      Array.from({ length: 4 }, (_, i) => lab.send("PUT", APPEND, { body: text(i) })),
    );
    assert.deepEqual(
      answers.map(({ status }) => status),
      [201, 201, 409, 409],
    );
    await lab.refused("409 BlockCountExceedsLimit", "PUT", APPEND, { body: "x" });
  });
});

function text(i: number): string {
  return `${i}`.padStart(9, "0") + "\n";
}
