import { hex, padded } from "./number.ts";

/** FNV-1a over UTF-8. The function and the bucket count are part of the stored layout. */
export function fnv1a(text: string): number {
  let hash = 2_166_136_261;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 16_777_619);
  return hash >>> 0;
}

/** The bucket of `text`, padded to the width of the last one: `08` of 16. */
export function bucketOf(text: string, buckets: number): string {
  return padded(fnv1a(text) % buckets, String(buckets - 1).length);
}

/** 128-bit FNV-1a as 32 hexadecimal digits, for values too long for a key. */
export function fnv1a128(text: string): string {
  let hash = 0x6c62272e07bb014262b821756295c58dn;
  for (const byte of new TextEncoder().encode(text)) {
    hash = BigInt.asUintN(128, (hash ^ BigInt(byte)) * 0x1000000000000000000013bn);
  }
  return hex(hash, 32);
}
