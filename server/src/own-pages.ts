/**
 * Memory that returns to the system as soon as it is garbage. What the allocator of a C library has once given to
 * buffers of this size, it mostly keeps: after 700 downloads that nobody read, 170 MiB. V8 maps the memory of
 * resizable buffers itself, in pages of their own. For bytes that JavaScript seldom looks at: code for resizable
 * buffers is slower.
 */
export function ownPages(bytes: number): Buffer {
  return Buffer.from(new ArrayBuffer(bytes, { maxByteLength: bytes }), 0, bytes);
}

/** The same, shared with threads. */
export function sharedOwnPages(bytes: number): Uint8Array<SharedArrayBuffer> {
  return new Uint8Array(new SharedArrayBuffer(bytes, { maxByteLength: bytes }), 0, bytes);
}

declare global {
  // ECMAScript 2024, and in Node 20.
  interface ArrayBufferConstructor {
    new (byteLength: number, options: { maxByteLength: number }): ArrayBuffer;
  }
  interface SharedArrayBufferConstructor {
    new (byteLength: number, options: { maxByteLength: number }): SharedArrayBuffer;
  }
}
