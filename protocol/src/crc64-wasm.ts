/**
 * CRC64 of long content in WebAssembly, which has words of 64 and of 128 bits. 64 MiB take 10 ms of
 * CPU; the tables alone took 38, 32-bit words in JavaScript 130, and MD5 in OpenSSL 94.
 *
 * Most of the content is moved instead of summed: removing a byte and xoring it to the bytes that lie
 * `DISTANCES` bytes after it leaves the sum the same. Doing so from beginning to end, sixteen bytes
 * at a time, leaves a tail as long as the longest distance:
 *
 *   (func (export "move") (param $from i32) (param $end i32) (param $to i32)
 *     while $from < $end
 *       $to[0..16] ^= $from[-d0..] ^ $from[-d1..] ^ … ^ $from[-d7..]
 *       $from += 16, $to += 16)
 *
 * For the tail, `$to` is a separate buffer: bytes are moved into it, none out of it. The tail, and
 * short content, is summed with tables, two words a step, in two sums independent of each other:
 *
 *   (func (export "fold") (param $at i32) (param $end i32)
 *     (local $low i32) (local $high i32) (local $first i64) (local $second i64) (local $word i64)
 *     $first = sum                                                ;; $second = 0
 *     while $at + 32 <= $end                                      ;; leaves at least two words
 *       $first  = after16($first  ^ i64.load($at))
 *       $second = after16($second ^ i64.load($at + 8))
 *       $at += 16
 *     while $at < $end
 *       $first  = after8($first ^ i64.load($at)) ^ $second        ;; $second belongs to the next word
 *       $second = 0
 *       $at += 8
 *     sum = $first)
 *
 * `afterN` is what a word contributes to the sum when the word and the bytes after it are N bytes:
 * the xor of eight table entries, one for each byte of the word.
 */
export class Crc64Words {
  readonly #fold: Exports["fold"];
  readonly #move: Exports["move"];
  /** The low and the high word of the sum. */
  readonly sum: Int32Array;
  readonly #input: Uint8Array;
  readonly #firstWord: Int32Array;
  readonly #tail: Uint8Array;

  /** @param tables table n, of 256 pairs of a low and a high word, starts at index 512 n */
  constructor(tables: Int32Array) {
    // The caller has checked `isPossible`.
    const { Instance, Module } = WebAssembly!;
    const { fold, move, memory } = new Instance(new Module(moduleBytes())).exports;
    this.#fold = fold;
    this.#move = move;
    new Int32Array(memory.buffer).set(tables);
    this.sum = new Int32Array(memory.buffer, SUM, 2);
    this.#input = new Uint8Array(memory.buffer, INPUT, INPUT_BYTES);
    this.#firstWord = new Int32Array(memory.buffer, INPUT, 2);
    this.#tail = new Uint8Array(memory.buffer, TAIL, TAIL_BYTES_MAX);
  }

  /** Whether this runtime has WebAssembly with 128-bit vectors. */
  static get isPossible(): boolean {
    if (typeof WebAssembly === "undefined") return false;
    isPossible ??= WebAssembly.validate(moduleBytes());
    return isPossible;
  }

  /** Adds whole words to the sum; the length must be a multiple of eight bytes. */
  add(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at += INPUT_BYTES) {
      const part = bytes.subarray(at, at + INPUT_BYTES);
      if (part.length < MOVED_BYTES_MIN) {
        this.#input.set(part);
        this.#fold(INPUT, INPUT + part.length);
      } else {
        this.#fold(TAIL, TAIL + this.#moveToTail(part));
      }
    }
  }

  /** @returns the length of the tail. Its sum will be the sum so far with `part` added. */
  #moveToTail(part: Uint8Array): number {
    const moved = (part.length - DISTANCE_MAX) & -VECTOR_BYTES;
    this.#input.set(part.subarray(0, moved));
    // No byte is moved out of the tail.
    this.#input.fill(0, moved, part.length);
    this.#tail.set(part.subarray(moved));
    this.#firstWord[0]! ^= this.sum[0]!;
    this.#firstWord[1]! ^= this.sum[1]!;
    this.sum.fill(0);
    this.#move(INPUT, INPUT + moved, INPUT);
    this.#move(INPUT + moved, INPUT + part.length, TAIL);
    return part.length - moved;
  }
}

/** The parts used here. Not every type library declares WebAssembly, and not every runtime has it. */
declare const WebAssembly:
  | {
      readonly Module: new (bytes: Uint8Array) => object;
      readonly validate: (bytes: Uint8Array) => boolean;
      readonly Instance: new (module: object) => { readonly exports: Exports };
    }
  | undefined;

interface Exports {
  readonly fold: (at: number, end: number) => void;
  readonly move: (from: number, end: number, to: number) => void;
  readonly memory: { readonly buffer: ArrayBuffer };
}

let isPossible: boolean | undefined;

/**
 * In bytes. The sum of x^(-8 d) over these distances leaves 1 when divided by the polynomial; found
 * by a search that matches pairs of powers. Shorter distances would make loads wait for stores: a
 * load across two stores must find both already out of the processor's write buffer.
 */
const DISTANCES = [1259, 1481, 1490, 1630, 1642, 1699, 2379, 2468];
const DISTANCE_MAX = 2468;
const VECTOR_BYTES = 16;
/** Shorter content is summed faster with tables. */
const MOVED_BYTES_MIN = 8192;

/** One table for each position of a byte within two words. */
export const WORD_TABLES = 16;
/**
 * Memory layout: the tables, the sum, the tail, zeros in front of the content; then, on its own
 * pages, a part of the content.
 */
const PAGE_BYTES = 65_536;
const TABLE_BYTES = 2048;
const SUM = WORD_TABLES * TABLE_BYTES;
const TAIL = SUM + 16;
const TAIL_BYTES_MAX = DISTANCE_MAX + 2 * VECTOR_BYTES;
const INPUT = PAGE_BYTES;
const INPUT_PAGES = 4;
const INPUT_BYTES = INPUT_PAGES * PAGE_BYTES;

const AT = 0;
const END = 1;
const LOW = 2;
const HIGH = 3;
const FIRST = 4;
const SECOND = 5;
const WORD = 6;

/** The parameters of `move`, with `END`. */
const FROM = 0;
const TO = 2;

const I32 = 0x7f;
const I64 = 0x7e;

function moduleBytes(): Uint8Array {
  const fold = [2, 2, I32, 3, I64, ...foldCode(), END_OF_BLOCK];
  const move = [0, ...moveCode(), END_OF_BLOCK];
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    // Two types: two or three i32, no result.
    ...section(1, [2, 0x60, 2, I32, I32, 0, 0x60, 3, I32, I32, I32, 0]),
    ...section(3, [2, 0, 1]), // Two functions, one of each type.
    ...section(5, [1, 0, 1 + INPUT_PAGES]), // One memory.
    ...section(7, [3, ...name("memory"), 2, 0, ...name("fold"), 0, 0, ...name("move"), 0, 1]),
    ...section(10, [2, ...unsigned(fold.length), ...fold, ...unsigned(move.length), ...move]),
  ]);
}

function moveCode(): number[] {
  // Wasm offsets cannot be negative, so both pointers stay `DISTANCE_MAX` in front of the content.
  const moved = DISTANCES.flatMap((distance) => [
    ...get(FROM),
    ...loadVector(DISTANCE_MAX - distance),
    ...XOR128,
  ]);
  return [
    ...set(END, [...get(END), ...i32(DISTANCE_MAX), SUBTRACT32]),
    ...set(FROM, [...get(FROM), ...i32(DISTANCE_MAX), SUBTRACT32]),
    ...set(TO, [...get(TO), ...i32(DISTANCE_MAX), SUBTRACT32]),
    ...loop([
      ...breakIf([...get(FROM), ...get(END), NOT_LESS32]),
      ...[...get(TO), ...get(TO), ...loadVector(DISTANCE_MAX), ...moved],
      ...[...STORE128, 0, ...unsigned(DISTANCE_MAX)],
      ...set(FROM, [...get(FROM), ...i32(VECTOR_BYTES), ADD32]),
      ...set(TO, [...get(TO), ...i32(VECTOR_BYTES), ADD32]),
    ]),
  ];
}

function foldCode(): number[] {
  return [
    ...set(FIRST, [...i32(0), ...loadWord(SUM)]),
    ...loop([
      ...breakIf([...get(AT), ...i32(32), ADD32, ...get(END), GREATER32]),
      ...set(FIRST, after(16, [...get(FIRST), ...get(AT), ...loadWord(0), XOR64])),
      ...set(SECOND, after(16, [...get(SECOND), ...get(AT), ...loadWord(8), XOR64])),
      ...set(AT, [...get(AT), ...i32(16), ADD32]),
    ]),
    ...loop([
      ...breakIf([...get(AT), ...get(END), NOT_LESS32]),
      ...after(8, [...get(FIRST), ...get(AT), ...loadWord(0), XOR64]),
      ...set(FIRST, [...get(SECOND), XOR64]),
      ...set(SECOND, i64(0)),
      ...set(AT, [...get(AT), ...i32(8), ADD32]),
    ]),
    ...[...i32(0), ...get(FIRST), STORE64, 3, ...unsigned(SUM)],
  ];
}

/** What the word that `word` pushes contributes to the sum when it and the bytes after it are `bytes`. */
function after(bytes: number, word: number[]): number[] {
  const code = [
    ...[...word, TEE_LOCAL, WORD, WRAP64],
    ...set(LOW, []),
    ...set(HIGH, [...get(WORD), ...i64(32), SHIFT_RIGHT64, WRAP64]),
  ];
  for (let byte = 0; byte < 8; byte++) {
    // The byte times eight: the offset of its entry in its table.
    const shift = (byte % 4) * 8 - 3;
    code.push(...get(byte < 4 ? LOW : HIGH));
    code.push(...i32(Math.abs(shift)), shift < 0 ? SHIFT_LEFT32 : SHIFT_RIGHT32);
    code.push(...i32(0x7f8), AND32, ...loadWord((bytes - 1 - byte) * TABLE_BYTES));
    if (byte > 0) code.push(XOR64);
  }
  return code;
}

const END_OF_BLOCK = 0x0b;
const TEE_LOCAL = 0x22;
const STORE64 = 0x37;
const GREATER32 = 0x4b;
const NOT_LESS32 = 0x4f;
const ADD32 = 0x6a;
const SUBTRACT32 = 0x6b;
const AND32 = 0x71;
const SHIFT_LEFT32 = 0x74;
const SHIFT_RIGHT32 = 0x76;
const XOR64 = 0x85;
const SHIFT_RIGHT64 = 0x88;
const WRAP64 = 0xa7;
const STORE128 = [0xfd, 0x0b];
const XOR128 = [0xfd, 0x51];

function get(local: number): number[] {
  return [0x20, local];
}

/** Assigns what `code` leaves on the stack; with no code, what is there already. */
function set(local: number, code: number[]): number[] {
  return [...code, 0x21, local];
}

function i32(value: number): number[] {
  return [0x41, ...signed(value)];
}

function i64(value: number): number[] {
  return [0x42, ...signed(value)];
}

function loadWord(offset: number): number[] {
  return [0x29, 3, ...unsigned(offset)];
}

/** At any alignment. */
function loadVector(offset: number): number[] {
  return [0xfd, 0x00, 0, ...unsigned(offset)];
}

function loop(code: number[]): number[] {
  return [0x02, 0x40, 0x03, 0x40, ...code, 0x0c, 0, END_OF_BLOCK, END_OF_BLOCK];
}

function breakIf(code: number[]): number[] {
  return [...code, 0x0d, 1];
}

function section(id: number, content: number[]): number[] {
  return [id, ...unsigned(content.length), ...content];
}

function name(text: string): number[] {
  return [text.length, ...[...text].map((letter) => letter.charCodeAt(0))];
}

/** LEB128. */
function unsigned(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...unsigned(value >>> 7)];
}

/** Signed LEB128 of a value that is not negative: the highest bit of the last byte must stay 0. */
function signed(value: number): number[] {
  return value < 0x40 ? [value] : [(value & 0x7f) | 0x80, ...signed(value >>> 7)];
}
