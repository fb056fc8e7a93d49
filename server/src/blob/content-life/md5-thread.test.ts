import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, it } from "node:test";
import { beginMd5 } from "./md5-thread.ts";

describe("The MD5 thread", () => {
  it("computes the same as node:crypto, for any length and any division into parts", async () => {
    for (const length of [0, 1, 131_071, 131_072, 131_073, 5_000_000]) {
      for (const partBytes of [1000, 65_536, 400_000]) {
        const bytes = patterned(length);
        assert.equal(await sumOf(bytes, partBytes), md5(bytes), `${length} in ${partBytes}`);
      }
    }
  });

  it("computes several checksums at the same time", async () => {
    const contents = Array.from({ length: 20 }, (_, i) => patterned(1_000_000 + i));
    const sums = await Promise.all(contents.map((bytes) => sumOf(bytes, 50_000)));
    assert.deepEqual(sums, contents.map(md5));
  });

  it("allows the memory of a part to be reused once its update resolves", async () => {
    const sum = beginMd5();
    const part = shared(patterned(300_000));
    await sum.update(part.subarray(1000, 2000));
    part.fill(0);
    assert.equal(await sum.digest(), md5(patterned(300_000).subarray(1000, 2000)));
  });

  it("continues after a checksum was abandoned", async () => {
    const forgotten = beginMd5();
    forgotten.update(shared(patterned(1_000_000)));
    forgotten.forget();
    const bytes = patterned(200_000);
    assert.equal(await sumOf(bytes, 65_536), md5(bytes));
  });
});

async function sumOf(bytes: Uint8Array, partBytes: number): Promise<string> {
  const sum = beginMd5();
  for (let at = 0; at < bytes.length; at += partBytes) {
    await sum.update(shared(bytes.subarray(at, at + partBytes)));
  }
  return sum.digest();
}

function shared(bytes: Uint8Array): Uint8Array<SharedArrayBuffer> {
  const copy = new Uint8Array(new SharedArrayBuffer(bytes.length));
  copy.set(bytes);
  return copy;
}

function md5(bytes: Uint8Array): string {
  return createHash("md5").update(bytes).digest("base64");
}

function patterned(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let i = 0; i < length; i++) bytes[i] = i * 7 + (i >> 8);
  return bytes;
}
