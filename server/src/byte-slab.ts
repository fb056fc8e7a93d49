const SLAB_BYTES = 128 << 10;
let slab: Buffer = Buffer.alloc(0);
let used = 0;

/**
 * Memory for bytes that live as long as a request, from a slab that many share; whatever was in it is
 * still there. The usual block of a log is just too long for Node's own pool, and memory of its own for
 * each costs more than filling it.
 */
export function takeBytes(length: number): Buffer {
  if (length > SLAB_BYTES / 8) return Buffer.allocUnsafeSlow(length);
  if (used + length > slab.length) {
    slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
    used = 0;
  }
  used += length;
  return slab.subarray(used - length, used);
}
