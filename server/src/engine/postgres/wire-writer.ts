/** Object identifiers of the types that cross the wire; fixed numbers of PostgreSQL's catalog. */
export const TYPE = { bytea: 17, int8: 20, text: 25, byteaArray: 1001, int8Array: 1016 } as const;

const EMPTY = Buffer.alloc(0);
const INITIAL_BYTES = 16 * 1024;
/** A larger buffer, grown for one large value, is not kept. */
const KEPT_BYTES_MAX = 256 * 1024;

/**
 * Builds messages of the extended query protocol, with every parameter in binary form, in one buffer. Source:
 * "Frontend/Backend Protocol", "Message Formats".
 */
export class WireWriter {
  /** The part of the buffer that no message in flight occupies. */
  #buffer: Buffer = EMPTY;
  /** The whole buffer. */
  #whole: Buffer = EMPTY;
  #at = 0;
  #messageAt = 0;

  get bytesWritten(): number {
    return this.#at;
  }

  /** Returns everything written since the last call. The bytes belong to the caller. */
  take(): Buffer {
    const taken = this.#buffer.subarray(0, this.#at);
    // The rest of the buffer serves the next messages: nothing else writes there.
    const rest = this.#buffer.subarray(this.#at);
    this.#buffer = rest.length >= 1024 && this.#whole.length <= KEPT_BYTES_MAX ? rest : EMPTY;
    this.#at = 0;
    return taken;
  }

  /**
   * Call it when the bytes taken so far are no longer read. Allocating memory for each transaction of 100 KB
   * took a tenth of the server's processor time, most of it in garbage collection.
   */
  reuse(): void {
    if (this.#at === 0 && this.#whole.length <= KEPT_BYTES_MAX) this.#buffer = this.#whole;
  }

  query(text: string): void {
    this.#begin(0x51); // Q
    this.#cstring(text);
    this.#end();
  }

  parse(name: string, text: string, parameterTypes: readonly number[]): void {
    this.#begin(0x50); // P
    this.#cstring(name);
    this.#cstring(text);
    this.#int16(parameterTypes.length);
    for (const type of parameterTypes) this.#int32(type);
    this.#end();
  }

  /** Begins a Bind; exactly `parameterCount` parameters and then `endBind` must follow. */
  beginBind(name: string, parameterCount: number): void {
    this.#begin(0x42); // B
    this.#reserve(name.length + 10);
    this.#buffer[this.#at++] = 0; // The unnamed portal.
    this.#cstring(name);
    this.#int16(1); // One format for all parameters: binary.
    this.#int16(1);
    this.#int16(parameterCount);
  }

  bytes(value: Uint8Array): void {
    this.#reserve(4 + value.length);
    this.#uncheckedInt32(value.length);
    this.#buffer.set(value, this.#at);
    this.#at += value.length;
  }

  text(value: string): void {
    const length = Buffer.byteLength(value);
    this.#reserve(4 + length);
    this.#uncheckedInt32(length);
    this.#at += this.#buffer.write(value, this.#at, "utf8");
  }

  int8(value: number): void {
    this.#reserve(12);
    this.#uncheckedInt32(8);
    this.#uncheckedInt64(value);
  }

  bytesArray(values: readonly Uint8Array[]): void {
    let elementBytes = 0;
    for (const value of values) elementBytes += value.length;
    this.#beginArray(TYPE.bytea, values.length, elementBytes);
    for (const value of values) this.bytes(value);
  }

  int8Array(values: readonly number[]): void {
    this.#beginArray(TYPE.int8, values.length, values.length * 8);
    for (const value of values) this.int8(value);
  }

  /** An array of one dimension without nulls; `count` elements must follow. */
  #beginArray(elementType: number, count: number, elementBytes: number): void {
    this.#reserve(24);
    this.#uncheckedInt32((count === 0 ? 12 : 20) + 4 * count + elementBytes);
    this.#uncheckedInt32(count === 0 ? 0 : 1); // Dimensions.
    this.#uncheckedInt32(0); // No nulls.
    this.#uncheckedInt32(elementType);
    if (count === 0) return;
    this.#uncheckedInt32(count);
    this.#uncheckedInt32(1); // Lower bound.
  }

  endBind(resultFormat: 0 | 1): void {
    this.#int16(1);
    this.#int16(resultFormat);
    this.#end();
  }

  /** Runs the unnamed portal; 0 rows means all. */
  execute(rowsMax = 0): void {
    this.#begin(0x45); // E
    this.#reserve(5);
    this.#buffer[this.#at++] = 0;
    this.#uncheckedInt32(rowsMax);
    this.#end();
  }

  sync(): void {
    this.#begin(0x53); // S
    this.#end();
  }

  flush(): void {
    this.#begin(0x48); // H
    this.#end();
  }

  #begin(code: number): void {
    this.#reserve(5);
    this.#messageAt = this.#at;
    this.#buffer[this.#at] = code;
    this.#at += 5;
  }

  /** The length of a message includes itself but not the code before it. */
  #end(): void {
    this.#buffer.writeInt32BE(this.#at - this.#messageAt - 1, this.#messageAt + 1);
  }

  #cstring(text: string): void {
    this.#reserve(text.length * 3 + 1);
    // Statement names and texts are nearly always short ASCII; `write` handles any others.
    this.#at += this.#buffer.write(text, this.#at, "utf8");
    this.#buffer[this.#at++] = 0;
  }

  #int16(value: number): void {
    this.#reserve(2);
    this.#buffer[this.#at++] = value >>> 8;
    this.#buffer[this.#at++] = value;
  }

  #int32(value: number): void {
    this.#reserve(4);
    this.#uncheckedInt32(value);
  }

  #uncheckedInt32(value: number): void {
    const buffer = this.#buffer;
    const at = this.#at;
    buffer[at] = value >>> 24;
    buffer[at + 1] = value >>> 16;
    buffer[at + 2] = value >>> 8;
    buffer[at + 3] = value;
    this.#at = at + 4;
  }

  /** Exact for every integer a double holds, and without BigInt, which costs ten times as much. */
  #uncheckedInt64(value: number): void {
    this.#uncheckedInt32(Math.floor(value / 0x1_0000_0000));
    this.#uncheckedInt32(value >>> 0);
  }

  #reserve(bytes: number): void {
    const needed = this.#at + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(
      Math.max(INITIAL_BYTES, needed, needed > KEPT_BYTES_MAX ? needed * 1.25 : needed * 2) | 0,
    );
    // The message being written moves to the front of a buffer of its own.
    larger.set(this.#buffer.subarray(0, this.#at));
    this.#buffer = larger;
    this.#whole = larger;
  }
}
