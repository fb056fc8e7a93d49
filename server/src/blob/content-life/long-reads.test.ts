import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { MemoryContentStore } from "../../content/memory-content-store.ts";
import { MemoryEngine } from "../../engine/memory-engine.ts";
import { auditBlobs } from "../test-audit-blobs.ts";
import { BLOCK, BlobLab, LabClock } from "../test-blob-lab.ts";
import { UNREPORTED_MICROS_MAX } from "./long-reads.ts";

/** Too large for a row, and read in several parts. */
const LARGE = Buffer.alloc(700_000, 1);
const NAME = { account: "devstoreaccount1", container: "docs", blob: "a" };
const UNTOLD_MS_MAX = UNREPORTED_MICROS_MAX / 1000;

/** An engine that other processes share, while `shared` is true. */
class SharedEngine extends MemoryEngine {
  override readonly supports = { ...new MemoryEngine().supports, sharing: true };
  shared = true;

  /** Its versions are the only ones. */
  takeSlot(): void {}

  isShared(): boolean {
    return this.shared;
  }
}

for (const inRows of [false, true]) {
  describe(`Content that another process reads, ${inRows ? "in rows" : "in a content store"},`, () => {
    const clock = new LabClock();
    let engine: SharedEngine;
    let contentStore: MemoryContentStore | undefined;
    let reading: BlobLab;
    let writing: BlobLab;

    beforeEach(async () => {
      engine = new SharedEngine({ clock });
      contentStore = inRows ? undefined : new MemoryContentStore();
      const place = { clock, engine, inRows, ...(contentStore && { contentStore }) };
      reading = await BlobLab.open(place);
      writing = await BlobLab.open(place);
      await writing.must("PUT", "/docs?restype=container");
      await writing.must("PUT", "/docs/a?comp=block&blockid=AAAA", { body: LARGE });
      await writing.must("PUT", "/docs/a?comp=block&blockid=BBBB", { body: LARGE });
      const body = "<BlockList><Latest>AAAA</Latest><Latest>BBBB</Latest></BlockList>";
      await writing.must("PUT", "/docs/a?comp=blocklist", { body });
    });
    afterEach(async () => {
      await reading.close();
      await writing.close();
    });

    it("is freed after the read, not during it", async () => {
      const rest = await begin();
      await writing.must("DELETE", "/docs/a");
      // Before the read is reported: within two minutes nobody frees what was released.
      await collect();
      for (let minute = 0; minute < 10; minute++) {
        await reading.service.longReads.report();
        await reading.service.longReads.report();
        clock.ms += UNTOLD_MS_MAX / 2;
        await collect();
      }
      assert.equal(await rest(), 2 * LARGE.length);
      await reading.service.longReads.report();
      await collect();
      assert.deepEqual(await leftOver(), []);
    });

    it("is freed two minutes after the last report of a killed reader", async () => {
      await begin();
      await reading.service.longReads.report();
      await reading.service.longReads.report();
      await writing.must("DELETE", "/docs/a");
      clock.ms += UNTOLD_MS_MAX - 1;
      await collect();
      assert.notDeepEqual(await leftOver(), []);
      clock.ms += 2;
      await collect();
      assert.deepEqual(await leftOver(), []);
      assert.equal((await writing.service.longReads.reported()).size, 0);
    });

    it("is reported only if the read lasts", async () => {
      const rest = await begin();
      await reading.service.longReads.report();
      assert.equal((await writing.service.longReads.reported()).size, 0);
      await reading.service.longReads.report();
      assert.notEqual((await writing.service.longReads.reported()).size, 0);
      await rest();
    });

    it("is reported by background work within 40 seconds, until the read has ended", async (test) => {
      test.mock.timers.enable({ apis: ["setInterval"] });
      const isReported = async () => (await writing.service.longReads.reported()).size > 0;
      const pass = async (seconds: number) => {
        test.mock.timers.tick(seconds * 1000);
        // The runs that this started.
        await new Promise((resolve) => setImmediate(resolve));
      };
      for (const work of reading.service.background) work.start();
      await pass(0);
      const rest = await begin();
      await pass(20);
      assert.equal(await isReported(), false);
      await pass(20);
      assert.equal(await isReported(), true);
      await rest();
      await pass(20);
      assert.equal(await isReported(), false);
      // Clears the intervals while they are still mocked.
      await reading.close();
    });

    it("does not prevent freeing of other content", async () => {
      const rest = await begin();
      await writing.must("DELETE", "/docs/a");
      const read = await leftOver();
      await writing.must("PUT", "/docs/b", { headers: BLOCK, body: LARGE });
      await writing.must("DELETE", "/docs/b");
      assert.ok((await leftOver()).length > read.length);
      clock.ms += UNTOLD_MS_MAX;
      await reading.service.longReads.report();
      await reading.service.longReads.report();
      await writing.service.collector.collect(0);
      const others = (await leftOver()).filter((thing) => !read.includes(thing));
      assert.deepEqual(others, []);
      assert.equal(await rest(), 2 * LARGE.length);
    });

    it("is not reported if no other process shares the engine, and is freed immediately", async () => {
      engine.shared = false;
      const rest = await begin();
      await reading.service.longReads.report();
      await reading.service.longReads.report();
      assert.equal((await writing.service.longReads.reported()).size, 0);
      assert.equal(await rest(), 2 * LARGE.length);
      await writing.must("DELETE", "/docs/a");
      await collect();
      assert.deepEqual(await leftOver(), []);
    });

    /** Reads the first part. The returned function reads the rest and returns the total number of bytes. */
    async function begin(): Promise<() => Promise<number>> {
      const { blobs, contents } = reading.service.service.context;
      const { blob } = (await blobs.read(NAME)).record;
      const parts = contents.read(blob!, 0, blob!.size)[Symbol.asyncIterator]();
      let bytes = (await parts.next()).value!.length;
      return async () => {
        for (let part = await parts.next(); !part.done; part = await parts.next()) {
          bytes += part.value.length;
        }
        return bytes;
      };
    }

    /** Several runs: a draft is freed before the list that succeeded it. */
    async function collect(): Promise<void> {
      for (let run = 0; run < 3; run++) await writing.service.collector.collect();
    }

    /** Stored things that no blob refers to. */
    async function leftOver(): Promise<readonly string[]> {
      const { leftOver, missing } = await auditBlobs(engine, contentStore);
      assert.deepEqual(missing, []);
      return leftOver;
    }
  });
}
