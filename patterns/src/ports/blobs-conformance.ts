import assert from "node:assert/strict";
import { describe, it as test } from "node:test";
import type { BlobsPort } from "./blobs.ts";
import { isRefusal } from "./port-error.ts";

export interface BlobsUnderTest {
  readonly name: string;
  open(): Promise<BlobsPort> | BlobsPort;
  /** Declares a promise as a test. Default: the runner's `it`. */
  readonly it?: (name: string, work: () => Promise<void>) => void;
}

let containers = 0;
const bytes = (text: string) => new TextEncoder().encode(text);

/** What every blobs port promises, whatever its endpoint. */
export function testBlobsPort({ name, open, it = test }: BlobsUnderTest): void {
  const opened = async () => {
    const port = await open();
    const container = `conformance-${++containers}`;
    await port.createContainer(container);
    return { port, container };
  };
  const refused =
    (status: number, ...codes: string[]) =>
    (error: unknown) =>
      isRefusal(error, status) && codes.includes(error.code);

  describe(`${name} keeps the blobs port's contract`, () => {
    it("creates a container once", async () => {
      const { port, container } = await opened();
      assert.equal(await port.createContainer(container), false);
      await assert.rejects(
        port.put("conformance-none", "b", bytes("x")),
        refused(404, "ContainerNotFound"),
      );
    });

    it("returns bytes, type, metadata and ETag", async () => {
      const { port, container } = await opened();
      const body = Uint8Array.from({ length: 70_000 }, (_, i) => i % 256);
      const options = { contentType: "image/png", metadata: { first: "1", last: "2" } };
      const etag = await port.put(container, "a/b c.png", body, options);
      const found = await port.get(container, "a/b c.png");
      assert.deepEqual(found?.body, body);
      assert.deepEqual(
        [found?.etag, found?.length, found?.contentType, found?.metadata],
        [etag, 70_000, "image/png", options.metadata],
      );
      assert.ok(found?.lastModified instanceof Date);
      assert.equal(await port.get(container, "none"), undefined);
      await port.put(container, "empty", new Uint8Array());
      assert.equal((await port.get(container, "empty"))?.length, 0);
    });

    it("returns a part of a blob", async () => {
      const { port, container } = await opened();
      await port.put(container, "b", bytes("0123456789"));
      const part = await port.get(container, "b", { offset: 3, count: 4 });
      assert.deepEqual([part?.body, part?.length], [bytes("3456"), 4]);
      const end = await port.get(container, "b", { offset: 8, count: 4 });
      assert.deepEqual(end?.body, bytes("89"));
      await assert.rejects(
        port.get(container, "b", { offset: 10, count: 4 }),
        refused(416, "InvalidRange"),
      );
    });

    it("writes conditionally", async () => {
      const { port, container } = await opened();
      const etag = await port.put(container, "b", bytes("1"), { condition: "absent" });
      await assert.rejects(
        port.put(container, "b", bytes("2"), { condition: "absent" }),
        refused(409, "BlobAlreadyExists"),
      );
      await port.put(container, "b", bytes("2"), { condition: { ifMatch: etag } });
      await assert.rejects(
        port.put(container, "b", bytes("3"), { condition: { ifMatch: etag } }),
        refused(412, "ConditionNotMet"),
      );
      assert.deepEqual((await port.get(container, "b"))?.body, bytes("2"));
    });

    it("writes and deletes with a timeout", async () => {
      const { port, container } = await opened();
      const inTime = { timeoutS: 20 };
      await port.put(container, "a/b c.png", bytes("1"), inTime);
      assert.deepEqual((await port.get(container, "a/b c.png"))?.body, bytes("1"));
      assert.equal(await port.delete(container, "a/b c.png", inTime), true);
      assert.equal(await port.get(container, "a/b c.png"), undefined);
    });

    it("shows a blob of blocks once they are committed, and commits them again", async () => {
      const { port, container } = await opened();
      const [one, two, three] = ["MDAwMQ==", "MDAwMg==", "MDAwMw=="] as const;
      for (const id of [two, one, three]) {
        await port.stageBlock(container, "b", id, bytes(`${id} `));
      }
      assert.equal(await port.get(container, "b"), undefined);
      assert.deepEqual(await port.list(container, {}), { blobs: [] });
      for (let time = 0; time < 2; time++) {
        const etag = await port.commitBlocks(container, "b", [one, two], {
          contentType: "text/plain",
        });
        const found = await port.get(container, "b");
        assert.deepEqual(
          [found?.body, found?.contentType, found?.etag],
          [bytes(`${one} ${two} `), "text/plain", etag],
        );
      }
      await assert.rejects(
        port.commitBlocks(container, "b", [three]),
        refused(400, "InvalidBlockList"),
      );
      await assert.rejects(
        port.stageBlock(container, "b", "MDAwMDAwMQ==", bytes("x")).then(() =>
          // The service compares lengths among uncommitted blocks.
          port.stageBlock(container, "b", one, bytes("x")),
        ),
        refused(400, "InvalidBlobOrBlock"),
      );
      await port.put(container, "b", bytes("whole"));
      await assert.rejects(
        port.commitBlocks(container, "b", [one]),
        refused(400, "InvalidBlockList"),
      );
      await port.createAppendBlob(container, "log");
      await assert.rejects(
        port.stageBlock(container, "log", one, bytes("x")),
        refused(409, "InvalidBlobType"),
      );
    });

    it("appends only at the given position", async () => {
      const { port, container } = await opened();
      await port.createAppendBlob(container, "log", { hour: "12" });
      await assert.rejects(
        port.createAppendBlob(container, "log"),
        refused(409, "BlobAlreadyExists"),
      );
      await port.append(container, "log", bytes("one "), 0);
      await port.append(container, "log", bytes("two"), 4);
      await assert.rejects(
        port.append(container, "log", bytes("two"), 4),
        refused(412, "AppendPositionConditionNotMet"),
      );
      const etag = await port.setMetadata(container, "log", { hour: "13" });
      const found = await port.get(container, "log");
      assert.deepEqual(
        [found?.body, found?.metadata, found?.etag],
        [bytes("one two"), { hour: "13" }, etag],
      );
    });

    it("deletes existing blobs, conditionally", async () => {
      const { port, container } = await opened();
      const etag = await port.put(container, "b", bytes("1"));
      const newer = await port.put(container, "b", bytes("2"));
      await assert.rejects(
        port.delete(container, "b", { ifMatch: etag }),
        refused(412, "ConditionNotMet"),
      );
      await assert.rejects(
        port.delete(container, "b", { ifUnmodifiedSince: new Date("2001-01-01") }),
        refused(412, "ConditionNotMet"),
      );
      assert.equal(await port.delete(container, "b", { ifMatch: newer }), true);
      assert.equal(await port.delete(container, "b"), false);
    });

    it("lists by prefix, in name order, page by page", async () => {
      const { port, container } = await opened();
      for (const name of ["b/2", "a", "b/10", "b/1", "c"]) {
        await port.put(container, name, bytes(name), { metadata: { is: "there" } });
      }
      const names: string[] = [];
      for (let continuation: string | undefined, pages = 0; ; pages++) {
        assert.ok(pages < 10);
        const page = await port.list(container, {
          prefix: "b/",
          max: 2,
          ...(continuation !== undefined && { continuation }),
        });
        assert.ok(page.blobs.length <= 2);
        for (const { name, length, etag, metadata } of page.blobs) {
          names.push(name);
          assert.deepEqual([length, metadata], [name.length, { is: "there" }]);
          assert.equal(etag, (await port.get(container, name))?.etag);
        }
        continuation = page.continuation;
        if (continuation === undefined) break;
      }
      assert.deepEqual(names, ["b/1", "b/10", "b/2"]);
      assert.deepEqual(await port.list(container, { prefix: "none" }), { blobs: [] });
    });
  });
}
