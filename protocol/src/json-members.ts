import type { EdmForm } from "./edm.ts";
import { ServiceError } from "./errors.ts";
import { formNamed } from "./json-property.ts";
import {
  FALSE_BYTES,
  malformedJson,
  NULL_BYTES,
  scanNested,
  scanNumber,
  scanString,
  scanWord,
  skipWhiteSpace,
  TRUE_BYTES,
} from "./json-scanner.ts";
import { decodeUtf8 } from "./json-string.ts";
import { LIMITS } from "./limits.ts";

/** Kinds of a member's value. ABSENT: only its annotation was read so far. */
const ABSENT = 0;
export const NULL = 1;
export const TEXT = 2;
/** A string that contains escapes. */
export const ESCAPED_TEXT = 3;
export const INTEGER = 4;
/** A number with a fraction or an exponent. */
export const FRACTION = 5;
export const TRUE = 6;
export const FALSE = 7;

/** Roles of a member, by its name. */
export const PROPERTY = 0;
export const PARTITION_KEY = 1;
export const ROW_KEY = 2;
const TIMESTAMP = 3;

/**
 * The members of a flat JSON object, by position: nothing is decoded or copied. `x` and its
 * annotation `x@odata.type` are one member, in either order. Control information (`odata.*`, other
 * annotations) and `Timestamp` must be valid JSON, of any depth, and are dropped.
 *
 * An instance is reused: its contents are valid until the next `read`. Positions are indexes into
 * `bytes`; a string ends at its closing quote.
 */
export class JsonMembers {
  /** The body, or a copy of it in which escaped names are unescaped. */
  bytes: Uint8Array = new Uint8Array(0);
  count = 0;
  readonly roles = new Uint8Array(LIMITS.bodyMembersMax);
  /** The member with each role; -1 if there is none. */
  readonly byRole = new Int16Array(4);
  readonly nameStarts = new Int32Array(LIMITS.bodyMembersMax);
  readonly nameEnds = new Int32Array(LIMITS.bodyMembersMax);
  /** Whether the name is all ASCII letters, digits and `_`, and does not begin with a digit. */
  readonly plainNames = new Uint8Array(LIMITS.bodyMembersMax);
  readonly kinds = new Uint8Array(LIMITS.bodyMembersMax);
  readonly valueStarts = new Int32Array(LIMITS.bodyMembersMax);
  readonly valueEnds = new Int32Array(LIMITS.bodyMembersMax);

  /** The text of the annotation. A start of 0 means there is none, -1 that it is not a plain string. */
  readonly #typeStarts = new Int32Array(LIMITS.bodyMembersMax);
  readonly #typeEnds = new Int32Array(LIMITS.bodyMembersMax);
  readonly #hashes = new Int32Array(LIMITS.bodyMembersMax);
  /** Open addressing, at most half full: the index of a member plus one, 0 for an empty slot. */
  readonly #slots = new Int16Array(LIMITS.bodyMembersMax * 2);
  /** The slot of each member. */
  readonly #slotOf = new Int16Array(LIMITS.bodyMembersMax);
  #body: Uint8Array = this.bytes;
  #view = new DataView(this.bytes.buffer);
  #at = 0;
  #kind = ABSENT;
  #valueStart = 0;
  #valueEnd = 0;

  /**
   * @throws ServiceError InvalidInput for anything but one object of plain values (dropped members
   * may have any), DuplicatePropertiesSpecified, TooManyProperties.
   */
  read(body: Uint8Array): void {
    this.#body = body;
    this.#view = new DataView(body.buffer, body.byteOffset, body.length);
    this.bytes = body;
    // Only the slots the last body used: clearing all took 7 % of the time of a body of 1 KB.
    for (let member = 0; member < this.count; member++) this.#slots[this.#slotOf[member]!] = 0;
    this.count = 0;
    for (let role = 0; role < this.byRole.length; role++) this.byRole[role] = -1;
    const hasMark = body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf;
    this.#at = skipWhiteSpace(body, hasMark ? 3 : 0);
    this.#expect(0x7b); // {
    if (this.#peek() === 0x7d) this.#at++;
    else this.#members();
    if (skipWhiteSpace(body, this.#at) < body.length) throw malformedJson();
  }

  /**
   * The form that a member's annotation names; undefined if it has no annotation.
   * @throws ServiceError InvalidInput for an unknown type.
   */
  annotatedForm(member: number): EdmForm | undefined {
    const start = this.#typeStarts[member]!;
    if (start === 0) return undefined;
    const form = start < 0 ? -1 : formNamed(this.bytes, start, this.#typeEnds[member]!);
    if (form < 0) throw malformedJson();
    return form;
  }

  #members(): void {
    for (;;) {
      this.#member();
      const byte = this.#peek();
      this.#at++;
      if (byte === 0x7d) return; // }
      if (byte !== 0x2c) throw malformedJson(); // ,
      this.#at = skipWhiteSpace(this.bytes, this.#at);
    }
  }

  #member(): void {
    this.#expect(0x22); // "
    const start = this.#at;
    let end = start;
    let hash = HASH_SEED;
    const { bytes } = this;
    for (; end < bytes.length && NAME_BYTES[bytes[end]!] === 1; end++) {
      hash = Math.imul(hash ^ bytes[end]!, HASH_FACTOR);
    }
    if (bytes[end] === 0x22 && end > start && !isDigit(bytes[start]!)) {
      this.#at = end + 1;
      this.#addValue(start, end, hash, 1);
    } else if (bytes[end] === AT_SIGN && startsWith(bytes, end, bytes.length, TYPE_SUFFIX_QUOTED)) {
      this.#at = end + TYPE_SUFFIX_QUOTED.length;
      this.#addType(start, end, hash);
    } else {
      this.#unusualMember(start);
    }
  }

  /** A member whose name is not a plain property name: an annotation, or a name that needs a closer look. */
  #unusualMember(start: number): void {
    let end = scanString(this.bytes, this.#view, start);
    this.#at = (end < 0 ? ~end : end) + 1;
    if (end < 0) end = this.#spellOut(start, ~end);
    const { bytes } = this;
    let at = start;
    let hash = HASH_SEED;
    for (; at < end && bytes[at] !== AT_SIGN; at++) {
      hash = Math.imul(hash ^ bytes[at]!, HASH_FACTOR);
    }
    const isControl = startsWith(bytes, start, end, ODATA_PREFIX);
    if (at === end && !isControl) {
      this.#addValue(start, end, hash, 0);
    } else if (
      !isControl &&
      end - at === TYPE_SUFFIX.length &&
      startsWith(bytes, at, end, TYPE_SUFFIX)
    ) {
      this.#addType(start, at, hash);
    } else {
      this.#value(true);
    }
  }

  #addValue(start: number, end: number, hash: number, plain: number): void {
    const member = this.#find(start, end, hash);
    this.#value(this.roles[member] === TIMESTAMP);
    if (this.kinds[member] !== ABSENT) throw new ServiceError("DuplicatePropertiesSpecified");
    this.nameStarts[member] = start;
    this.nameEnds[member] = end;
    this.plainNames[member] = plain;
    this.kinds[member] = this.#kind;
    this.valueStarts[member] = this.#valueStart;
    this.valueEnds[member] = this.#valueEnd;
  }

  #addType(start: number, end: number, hash: number): void {
    const member = this.#find(start, end, hash);
    this.#value(this.roles[member] === TIMESTAMP);
    if (this.#typeStarts[member] !== 0) throw malformedJson();
    this.#typeStarts[member] = this.#kind === TEXT ? this.#valueStart : -1;
    this.#typeEnds[member] = this.#valueEnd;
  }

  /** The member with this name, added if it is new. */
  #find(start: number, end: number, hash: number): number {
    const mask = this.#slots.length - 1;
    let slot = (hash ^ (hash >>> 15)) & mask;
    for (; this.#slots[slot] !== 0; slot = (slot + 1) & mask) {
      const member = this.#slots[slot]! - 1;
      if (this.#hashes[member] === hash && this.#isNamed(member, start, end)) return member;
    }
    const member = this.count;
    if (member === LIMITS.bodyMembersMax) throw new ServiceError("TooManyProperties");
    this.count++;
    this.#slots[slot] = member + 1;
    this.#slotOf[member] = slot;
    this.#hashes[member] = hash;
    this.nameStarts[member] = start;
    this.nameEnds[member] = end;
    this.kinds[member] = ABSENT;
    this.#typeStarts[member] = 0;
    const role = roleOf(this.bytes, start, end);
    this.roles[member] = role;
    this.byRole[role] = member;
    return member;
  }

  #isNamed(member: number, start: number, end: number): boolean {
    const { bytes } = this;
    const known = this.nameStarts[member]!;
    if (this.nameEnds[member]! - known !== end - start) return false;
    for (let i = 0; i < end - start; i++) {
      if (bytes[known + i] !== bytes[start + i]) return false;
    }
    return true;
  }

  /** Reads `: value`. @param ignored whether the value may also be an object or an array */
  #value(ignored: boolean): void {
    this.#at = skipWhiteSpace(this.bytes, this.#at);
    this.#expect(0x3a); // :
    const { bytes } = this;
    const at = skipWhiteSpace(bytes, this.#at);
    let end: number;
    switch (bytes[at]) {
      case 0x22: // "
        end = scanString(bytes, this.#view, at + 1);
        this.#kind = end < 0 ? ESCAPED_TEXT : TEXT;
        this.#valueStart = at + 1;
        this.#valueEnd = end < 0 ? ~end : end;
        this.#at = this.#valueEnd + 1;
        return;
      case 0x74: // t
        this.#kind = TRUE;
        end = scanWord(bytes, at, TRUE_BYTES);
        break;
      case 0x66: // f
        this.#kind = FALSE;
        end = scanWord(bytes, at, FALSE_BYTES);
        break;
      case 0x6e: // n
        this.#kind = NULL;
        end = scanWord(bytes, at, NULL_BYTES);
        break;
      case 0x7b: // {
      case 0x5b: // [
        if (!ignored) throw malformedJson();
        this.#kind = NULL;
        end = scanNested(bytes, this.#view, at);
        break;
      default: // A number, or no value.
        end = scanNumber(bytes, at);
        this.#kind = end < 0 ? FRACTION : INTEGER;
        if (end < 0) end = ~end;
    }
    this.#valueStart = at;
    this.#valueEnd = end;
    this.#at = end;
  }

  /**
   * Unescapes the name `bytes[start, end)` in place, in a copy of the body: the UTF-8 is never
   * longer. Returns its new end.
   */
  #spellOut(start: number, end: number): number {
    const name: string = JSON.parse(`"${decodeUtf8(this.bytes, start, end)}"`);
    if (this.bytes === this.#body) {
      // Not `slice`: a Buffer's `slice` copies nothing and shares the memory of the Buffer.
      this.bytes = new Uint8Array(this.#body);
      this.#view = new DataView(this.bytes.buffer);
    }
    return start + encoder.encodeInto(name, this.bytes.subarray(start, end)).written;
  }

  #peek(): number | undefined {
    this.#at = skipWhiteSpace(this.bytes, this.#at);
    return this.bytes[this.#at];
  }

  #expect(byte: number): void {
    if (this.bytes[this.#at] !== byte) throw malformedJson();
    this.#at++;
  }
}

function roleOf(bytes: Uint8Array, start: number, end: number): number {
  switch (end - start) {
    case PARTITION_KEY_NAME.length:
      return startsWith(bytes, start, end, PARTITION_KEY_NAME) ? PARTITION_KEY : PROPERTY;
    case ROW_KEY_NAME.length:
      return startsWith(bytes, start, end, ROW_KEY_NAME) ? ROW_KEY : PROPERTY;
    case TIMESTAMP_NAME.length:
      return startsWith(bytes, start, end, TIMESTAMP_NAME) ? TIMESTAMP : PROPERTY;
    default:
      return PROPERTY;
  }
}

function startsWith(bytes: Uint8Array, start: number, end: number, text: Uint8Array): boolean {
  if (end - start < text.length) return false;
  for (let i = 0; i < text.length; i++) {
    if (bytes[start + i] !== text[i]) return false;
  }
  return true;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

const encoder = new TextEncoder();
const PARTITION_KEY_NAME = encoder.encode("PartitionKey");
const ROW_KEY_NAME = encoder.encode("RowKey");
const TIMESTAMP_NAME = encoder.encode("Timestamp");
const ODATA_PREFIX = encoder.encode("odata.");
const TYPE_SUFFIX_QUOTED = encoder.encode('@odata.type"');
const TYPE_SUFFIX = encoder.encode("@odata.type");
const AT_SIGN = 0x40;

const HASH_SEED = -2_128_831_035;
const HASH_FACTOR = 16_777_619;

/** 1 for the bytes of plain names: letters, digits and `_`. */
const NAME_BYTES = new Uint8Array(256);
for (const byte of encoder.encode(
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_",
)) {
  NAME_BYTES[byte] = 1;
}
