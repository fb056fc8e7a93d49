import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, it } from "node:test";
import { beginMd5 } from "./md5-thread.ts";

describe("MD5 in a thread of its own", () => {
  it("is the same as here, whatever the length and however it is cut", async () => {
    for (const length of [0, 1, 131_071, 131_072, 131_073, 5_000_000]) {
      for (const partBytes of [1000, 65_536, 400_000]) {
        const bytes = patterned(length);
        assert.equal(await sumOf(bytes, partBytes), md5(bytes), `${length} in ${partBytes}`);
      }
    }
  });

  it("keeps sums that are made at the same time apart", async () => {
    const contents = Array.from({ length: 20 }, (_, i) => patterned(1_000_000 + i));
    const sums = await Promise.all(contents.map((bytes) => sumOf(bytes, 50_000)));
    assert.deepEqual(sums, contents.map(md5));
  });

  it("gives back the memory it took, all of it", async () => {
    const sum = beginMd5();
    const bytes = new Uint8Array(patterned(300_000));
    const expected = md5(bytes.subarray(1000, 2000));
    const back = await sum.take(bytes.subarray(1000, 2000));
    assert.equal(bytes.length, 0);
    assert.deepEqual(Buffer.from(back), patterned(300_000));
    assert.equal(await sum.digest(), expected);
  });

  it("goes on after one was forgotten", async () => {
    const forgotten = beginMd5();
    forgotten.take(new Uint8Array(1_000_000));
    forgotten.forget();
    const bytes = patterned(200_000);
    assert.equal(await sumOf(bytes, 65_536), md5(bytes));
  });
});

async function sumOf(bytes: Uint8Array, partBytes: number): Promise<string> {
  const sum = beginMd5();
  for (let at = 0; at < bytes.length; at += partBytes) {
    await sum.take(new Uint8Array(bytes.subarray(at, at + partBytes)));
  }
  return sum.digest();
}

function md5(bytes: Uint8Array): string {
  return createHash("md5").update(bytes).digest("base64");
}

function patterned(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let i = 0; i < length; i++) bytes[i] = i * 7 + (i >> 8);
  return bytes;
}
