import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, describe, it } from "node:test";
import type { Awaitable } from "../awaitable.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { ContentId } from "../content/content-store.ts";
import { MemoryContentStore } from "../content/memory-content-store.ts";
import type { KeyRange, ScanEnd, Visit } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { digestOf } from "./content-life/content-digest.ts";
import { BlobLab } from "./test-blob-lab.ts";

let lab: BlobLab;

before(async () => {
  lab = await BlobLab.open();
  await lab.must("PUT", "/docs?restype=container");
});
after(() => lab.close());

describe("Get Blob", () => {
  const content = Buffer.from("hello world");

  before(async () => {
    await lab.put("/docs/hello", { body: content });
    await lab.put("/docs/empty");
  });

  for (const [range, expected] of [
    ["bytes=0-0", "bytes 0-0/11"],
    ["bytes=0-", "bytes 0-10/11"],
    ["bytes=5-1000", "bytes 5-10/11"],
    ["bytes=-5", undefined],
  ] as const) {
    it(`answers ${range} with ${expected ?? "all of it"}`, async () => {
      const { status, headers, body } = await lab.must("GET", "/docs/hello", {
        headers: { Range: range },
      });
      assert.equal(status, expected ? 206 : 200);
      assert.equal(headers.get("content-range"), expected);
      assert.equal(headers.get("content-length"), String(body.length));
      const [first = 0, last = 10] = (expected?.match(/\d+-\d+/)?.[0] ?? "").split("-").map(Number);
      assert.deepEqual(body, expected ? content.subarray(first, last + 1) : content);
      const whole = headers.get(expected ? "x-ms-blob-content-md5" : "content-md5");
      assert.equal(whole, "XrY7u+Ae7tCTyyK7j1rNww==");
    });
  }

  it("refuses ranges after the end, and every range of an empty blob", async () => {
    const answer = await lab.refused("416 InvalidRange", "GET", "/docs/hello", {
      headers: { Range: "bytes=11-" },
    });
    assert.equal(answer.headers.get("content-range"), "bytes */11");
    await lab.refused("416 InvalidRange", "GET", "/docs/empty", {
      headers: { "x-ms-range": "bytes=0-33554431" },
    });
  });

  it("returns a range if If-Range matches the ETag, and the whole blob otherwise", async () => {
    const { headers } = await lab.must("GET", "/docs/hello");
    const etag = `${headers.get("etag")}`;
    for (const [ifRange, status] of [
      [etag, 206],
      [`W/${etag}`, 200],
      ['"0x8DECF31A2B4C6D0"', 200],
      // Too coarse to tell.
      [`${headers.get("last-modified")}`, 200],
    ] as const) {
      for (const range of ["Range", "x-ms-range"]) {
        const answer = await lab.must("GET", "/docs/hello", {
          headers: {
            [range]: "bytes=6-",
            "If-Range": ifRange,
            "x-ms-range-get-content-md5": "true",
          },
        });
        const expected = status === 206 ? content.subarray(6) : content;
        assert.deepEqual([answer.status, answer.body], [status, expected], `${range}, ${ifRange}`);
        const md5 = createHash("md5").update(expected).digest("base64");
        assert.equal(answer.headers.get("content-md5"), md5);
      }
    }
    // Nor is a range refused that the blob no longer has.
    const answer = await lab.must("GET", "/docs/empty", {
      headers: { Range: "bytes=6-", "If-Range": etag },
    });
    assert.equal(answer.status, 200);
  });

  it("returns the MD5 or CRC64 of a range of up to 4 MiB on request", async () => {
    const get = (headers: Record<string, string>) => lab.must("GET", "/docs/hello", { headers });
    const range = { "x-ms-range": "bytes=0-4" };
    const md5 = (await get({ ...range, "x-ms-range-get-content-md5": "true" })).headers;
    assert.equal(md5.get("content-md5"), createHash("md5").update("hello").digest("base64"));
    const crc64 = (await get({ ...range, "x-ms-range-get-content-crc64": "true" })).headers;
    assert.equal(
      crc64.get("x-ms-content-crc64"),
      digestOf(Buffer.from("hello"), { md5: false }).crc64,
    );
    const large = Buffer.alloc(5 * 1_048_576, 7);
    await lab.put("/docs/large", { body: large });
    const four = { "x-ms-range": "bytes=1-4194304", "x-ms-range-get-content-md5": "true" };
    await lab.must("GET", "/docs/large", { headers: four });
    for (const [headers, expected] of [
      [
        { "x-ms-range": "bytes=0-4194304", "x-ms-range-get-content-md5": "true" },
        "400 OutOfRangeInput",
      ],
      [{ "x-ms-range-get-content-md5": "true" }, "400 InvalidHeaderValue"],
      [{ ...four, "x-ms-range-get-content-crc64": "true" }, "400 InvalidHeaderValue"],
      [{ ...four, "x-ms-range-get-content-md5": "yes" }, "400 InvalidHeaderValue"],
    ] as const) {
      await lab.refused(expected, "GET", "/docs/large", { headers });
    }
  });

  it("returns a structured message on request", async () => {
    const headers = { "x-ms-structured-body": "XSM/1.0; properties=crc64" };
    const answer = await lab.must("GET", "/docs/hello", { headers });
    assert.equal(answer.headers.get("content-length"), "50");
    assert.equal(answer.headers.get("x-ms-structured-content-length"), "11");
    assert.equal(answer.body.subarray(23, 34).toString(), "hello world");
    const part = await lab.must("GET", "/docs/hello", {
      headers: { ...headers, Range: "bytes=6-10" },
    });
    assert.equal(part.headers.get("content-range"), "bytes 6-10/11");
    assert.equal(part.body.subarray(23, 28).toString(), "world");
  });

  it("answers BlobNotFound for a missing blob, whatever its conditions that a read may have", async () => {
    for (const [header, etag] of [
      ["If-Match", "*"],
      ["If-Match", '"0x8DECF0000000000"'],
      ["If-None-Match", '"0x8DECF0000000000"'],
    ] as const) {
      await lab.refused("404 BlobNotFound", "GET", "/docs/missing", {
        headers: { [header]: etag },
      });
    }
    for (const verb of ["GET", "HEAD"]) {
      const headers = { "If-None-Match": "*" };
      await lab.refused("400 UnsatisfiableCondition", verb, "/docs/missing", { headers });
    }
  });

  it("finds no snapshots or versions", async () => {
    for (const path of ["/docs/hello?snapshot=2026-01-01", "/docs/hello?versionid=1"]) {
      for (const method of ["GET", "HEAD", "DELETE"]) {
        await lab.refused("404 BlobNotFound", method, path);
      }
      await lab.refused("404 BlobNotFound", "GET", `${path}&comp=blocklist`);
      await lab.refused("404 BlobNotFound", "GET", `${path}&comp=metadata`);
    }
  });

  for (const inRows of [false, true]) {
    it(`returns one version while the blob is replaced during the read, ${inRows ? "in rows" : "in a content store"}`, async () => {
      const engine = new WatchedEngine();
      const contentStore = new WatchedStore();
      const lab = await BlobLab.open({ engine, inRows, ...(!inRows && { contentStore }) });
      const large = Buffer.concat([1, 2, 3].map((fill) => Buffer.alloc(1_048_576, fill)));
      await lab.must("PUT", "/docs?restype=container");
      await lab.put("/docs/replaced", { body: large });
      const etag = (await lab.must("HEAD", "/docs/replaced")).headers.get("etag");
      const watch = (onRead: (() => Promise<void>) | undefined) =>
        Object.assign(inRows ? engine : contentStore, { onRead });
      let replaced = 0;
      const replace = async () => {
        watch(undefined);
        await lab.put("/docs/replaced", { body: Buffer.alloc(large.length, 9) });
        await lab.service.collector.collect(0);
        replaced++;
        watch(replace);
      };
      watch(replace);
      const { headers, body } = await lab.must("GET", "/docs/replaced");
      watch(undefined);
      assert.ok(replaced >= 3);
      assert.ok(body.equals(large));
      assert.equal(headers.get("etag"), etag);
      assert.equal(headers.get("content-md5"), createHash("md5").update(large).digest("base64"));
      await lab.assertTidy();
      await lab.close();
    });
  }
});

/** Yields large contents in parts of a MiB, and calls back before each. */
class WatchedStore extends MemoryContentStore {
  onRead: (() => Promise<void>) | undefined;

  override async *read(id: ContentId, start: number, end: number): AsyncGenerator<Uint8Array> {
    for (let at = start; at < end; at += 1_048_576) {
      await this.onRead?.();
      yield* super.read(id, at, Math.min(at + 1_048_576, end));
    }
  }
}

/** Calls back before each scan of rows of contents. */
class WatchedEngine extends MemoryEngine {
  onRead: (() => Promise<void>) | undefined;

  override scan(range: KeyRange, visit: Visit): Awaitable<ScanEnd> {
    if (range.start.partition[0] !== KEY_SPACES.blobContents || !this.onRead) {
      return super.scan(range, visit);
    }
    return this.onRead().then(() => super.scan(range, visit));
  }
}
