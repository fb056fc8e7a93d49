const SLAB_BYTES = 128 << 10;
let slab: Buffer = Buffer.alloc(0);
let used = 0;

/**
 * Memory for bytes that live as long as a request, carved from a shared slab and not cleared. The usual block
 * of a log is slightly too long for Node's own pool, and separate memory for each block costs more than
 * filling it.
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
