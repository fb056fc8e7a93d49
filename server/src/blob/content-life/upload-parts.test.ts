import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, it } from "node:test";
import { PartsFiller } from "../../wire/parts-filler.ts";
import { beginDigest, type RunningDigest } from "./content-digest.ts";
import { type Part, UploadParts } from "./upload-parts.ts";

describe("The parts of an upload", () => {
  it("contain the content and are checksummed, and each stays valid while the next is handled", async () => {
    for (const length of [1, 1_048_576, 1_048_577, 9_000_000]) {
      const content = patterned(length);
      const digest = beginDigest(2_000_000, { md5: true });
      const parts = new UploadParts();
      const body = partsBody(inPieces(content, 70_001));
      const gathered: Uint8Array[] = [];
      let previous: Uint8Array = new Uint8Array(0);
      for await (const part of parts.gather(body, length, asItIs, digest)) {
        gathered.push(Uint8Array.from(previous));
        previous = part;
      }
      gathered.push(Uint8Array.from(previous));
      parts.giveBack();
      assert.ok(Buffer.concat(gathered).equals(content), `${length} bytes`);
      const { bytes, md5 } = await digest.digest();
      assert.deepEqual(
        { bytes, md5 },
        { bytes: length, md5: createHash("md5").update(content).digest("base64") },
      );
    }
  });

  it("are requested while the previous one is handled", async () => {
    const content = patterned(4_000_000);
    let [asked, at] = [0, 0];
    const body = {
      reserve() {},
      fill(memory: Uint8Array) {
        asked++;
        const part = content.subarray(at, at + memory.length);
        memory.set(part);
        at += part.length;
        return part.length;
      },
    };
    const parts = new UploadParts();
    const askedBy: number[] = [];
    const digest = beginDigest(0, { md5: false });
    for await (const _ of parts.gather(body, content.length, asItIs, digest)) askedBy.push(asked);
    // The first two are short.
    assert.deepEqual(askedBy, [1, 2, 4, 5, 6, 6]);
    parts.giveBack();
  });

  it("are checksummed on arrival, however slow the consumer is", async () => {
    const sums: number[] = [];
    const digest = recording(sums);
    const parts = new UploadParts();
    const body = partsBody(inPieces(patterned(3_000_000), 65_536));
    const taken = parts.gather(body, 3_000_000, asItIs, digest);
    await taken.next();
    await taken.next();
    await taken.next();
    while (sums.length < 4) await new Promise(setImmediate);
    for await (const _ of taken);
    const short = (16 << 10) + (128 << 10);
    assert.deepEqual(sums, [16 << 10, 128 << 10, 1 << 20, 1 << 20, 3_000_000 - short - (2 << 20)]);
    parts.giveBack();
  });

  it("stay short for a client that takes long to send them, and their memory is counted", async () => {
    let now = 0;
    const counted: number[] = [];
    const parts = new UploadParts(() => now);
    const body = {
      reserve: (bytes: number) => void counted.push(bytes),
      async fill(memory: Uint8Array) {
        now += 600;
        return memory.length;
      },
    };
    const gathering = parts.gather(body, 3_000_000, asItIs, beginDigest(0, { md5: false }));
    for (let i = 0; i < 3; i++) assert.equal((await gathering.next()).value?.length, 16 << 10);
    await gathering.return();
    assert.deepEqual(counted, [16 << 10, 16 << 10, 16 << 10]);
  });

  it("are no longer checksummed once the consumer has stopped", async () => {
    const sums: number[] = [];
    let arrive = (_bytes: number) => {};
    let asked = 0;
    const body = {
      reserve() {},
      fill: (memory: Uint8Array) =>
        asked++ < 3 ? memory.length : new Promise<number>((resolve) => (arrive = resolve)),
    };
    const parts = new UploadParts();
    const taken = parts.gather(body, 3_000_000, asItIs, recording(sums));
    for (let i = 0; i < 3; i++) await taken.next();
    await taken.return();
    arrive(1 << 20);
    await new Promise(setImmediate);
    assert.deepEqual(sums, [16 << 10, 128 << 10, 1 << 20]);
    parts.giveBack();
  });

  it("use memory that no other upload uses until it is given back", async () => {
    const first = await memoryOf(new UploadParts());
    const second = await memoryOf(new UploadParts());
    assert.ok([...second.memory].every((part) => !first.memory.has(part)));
    first.parts.giveBack();
    await new Promise(setImmediate);
    const third = await memoryOf(new UploadParts());
    assert.deepEqual(third.memory, first.memory);
  });

  it("fail only their own upload if the checksum thread exits", async () => {
    const parts = new UploadParts();
    const ended = new Error("The checksum thread exited.");
    const failing = Promise.reject(ended);
    failing.catch(() => {});
    const digest = {
      update: () => failing,
      digest: () => failing,
      forget() {},
    };
    const body = partsBody(inPieces(patterned(9_000_000), 65_536));
    const gathering = async () => {
      for await (const _ of parts.gather(body, 9_000_000, asItIs, digest)) {
        // A write. An unhandled rejection during it would end the process.
        await new Promise(setImmediate);
      }
    };
    await assert.rejects(gathering(), ended);
    parts.giveBack();
    await new Promise(setImmediate);
  });
});

/** Records the lengths of the parts. */
function recording(sums: number[]): RunningDigest {
  return {
    update: (part) => void sums.push(part.length),
    digest: () => assert.fail("the checksum is not requested"),
    forget() {},
  };
}

/** The memory that a long upload passes through. */
async function memoryOf(parts: UploadParts) {
  const memory = new Set<ArrayBufferLike>();
  const digest = beginDigest(0, { md5: false });
  const body = partsBody(inPieces(patterned(6_000_000), 65_536));
  for await (const part of parts.gather(body, 6_000_000, asItIs, digest)) {
    if (part.buffer.byteLength === 1 << 20) memory.add(part.buffer);
  }
  return { parts, memory };
}

function partsBody(pieces: AsyncIterable<Uint8Array>) {
  const filler = new PartsFiller(pieces);
  return { fill: (memory: Uint8Array) => filler.fill(memory), reserve() {} };
}

function asItIs(bytes: Part): Part {
  return bytes;
}

async function* inPieces(bytes: Uint8Array, pieceBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

function patterned(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let i = 0; i < length; i++) bytes[i] = i * 7 + (i >> 8);
  return bytes;
}
