import { toBuffer } from "../byte-views.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { Key, KeyRange } from "../engine/engine.ts";
import { encodeId, prefixEnd } from "../engine/key-codec.ts";

/*
 * How the messages of a queue are stored. A queue is one partition, so every commit stays within it:
 *
 *   01 expiry(6) id(16)                          → the message, see `message-record.ts`
 *   02 visible(6) sequence(7) expiry(6) id(16)   → empty
 *
 * Records are ordered by expiry: expired messages come first, where the sweeper frees them. Ready keys are in
 * the order of receiving: visible messages come first and are found without reading hidden ones. The record
 * and the ready key of a message always change in one commit.
 *
 * Times are milliseconds since 1970. The sequence is the version of the commit that put the message; it
 * orders messages that become visible in the same millisecond.
 */

/** The location of a message's record, which never changes. */
export interface MessagePosition {
  readonly expiresAt: number;
  /** Sixteen bytes, one character each: cheap to copy, compare and look up. */
  readonly id: string;
}

/** The location of a message's ready key, until the message is received or updated. */
export interface ReadyPlace extends MessagePosition {
  readonly visibleAt: number;
  readonly sequence: number;
}

export const ID_BYTES = 16;
export const TIME_BYTES = 6;
const SEQUENCE_BYTES = 7;

const RECORD = 0x01;
const READY = 0x02;
const READY_SEQUENCE = 1 + TIME_BYTES;
const READY_EXPIRY = READY_SEQUENCE + SEQUENCE_BYTES;

/** The partition of a queue as a map key. */
export function queueText(partition: Uint8Array): string {
  return readText(partition, 0, partition.length);
}

/** The partition that holds everything of one queue. */
export function queuePartition(accountId: number, queueId: number): Uint8Array {
  const space = Uint8Array.of(KEY_SPACES.messages);
  return Buffer.concat([space, encodeId(accountId), encodeId(queueId)]);
}

export function recordKey(partition: Uint8Array, { expiresAt, id }: MessagePosition): Key {
  const sort = Buffer.allocUnsafe(1 + TIME_BYTES + ID_BYTES);
  sort[0] = RECORD;
  writeTime(sort, expiresAt, 1);
  sort.write(id, 1 + TIME_BYTES, "latin1");
  return { partition, sort };
}

export function readyKey(partition: Uint8Array, place: ReadyPlace): Key {
  const sort = Buffer.allocUnsafe(READY_EXPIRY + TIME_BYTES + ID_BYTES);
  sort[0] = READY;
  writeTime(sort, place.visibleAt, 1);
  writeSequence(sort, place.sequence, READY_SEQUENCE);
  writeTime(sort, place.expiresAt, READY_EXPIRY);
  sort.write(place.id, READY_EXPIRY + TIME_BYTES, "latin1");
  return { partition, sort };
}

/** Values read from a key are copied: they outlive the visit that lent the key. */
export function readRecordKey({ sort }: Key): MessagePosition {
  return { expiresAt: readTime(sort, 1), id: readText(sort, 1 + TIME_BYTES, sort.length) };
}

export function readReadyKey({ sort }: Key): ReadyPlace {
  return {
    visibleAt: readTime(sort, 1),
    sequence: readSequence(sort, READY_SEQUENCE),
    expiresAt: readTime(sort, READY_EXPIRY),
    id: readText(sort, READY_EXPIRY + TIME_BYTES, sort.length),
  };
}

/** The expiry in a ready key. */
export function readReadyExpiry({ sort }: Key): number {
  return readTime(sort, READY_EXPIRY);
}

/** The ready keys of all messages. */
export function readyRange(partition: Uint8Array): KeyRange {
  return { start: { partition, sort: READY_START }, end: { partition, sort: READY_END } };
}

/** The ready keys of messages that are visible at `now`, or were until they expired. */
export function visibleRange(partition: Uint8Array, now: number): KeyRange {
  return { start: { partition, sort: READY_START }, end: position(partition, READY, now + 1) };
}

/** The records of messages that have expired by `now`. */
export function expiredRange(partition: Uint8Array, now: number): KeyRange {
  return { start: { partition, sort: RECORD_START }, end: position(partition, RECORD, now + 1) };
}

/** The records of messages that have not, soonest expiry first. */
export function unexpiredRange(partition: Uint8Array, now: number): KeyRange {
  return { start: position(partition, RECORD, now + 1), end: { partition, sort: READY_START } };
}

const RECORD_START = Uint8Array.of(RECORD);
const READY_START = Uint8Array.of(READY);
const READY_END = prefixEnd(READY_START)!;

/** The position before all keys of this kind and time. */
function position(partition: Uint8Array, kind: number, time: number): Key {
  const sort = Buffer.allocUnsafe(1 + TIME_BYTES);
  sort[0] = kind;
  writeTime(sort, time, 1);
  return { partition, sort };
}

/** 48 bits: the year 9999 needs them. */
export function writeTime(target: Buffer, time: number, at: number): void {
  target.writeUIntBE(time, at, TIME_BYTES);
}

export function readTime(bytes: Uint8Array, at: number): number {
  return readUint16(bytes, at) * TWO_32 + readUint32(bytes, at + 2);
}

/** Versions are below 2 ** 53. */
export function writeSequence(target: Buffer, sequence: number, at: number): void {
  target.writeUIntBE(Math.floor(sequence / TWO_32), at, 3);
  target.writeUInt32BE(sequence % TWO_32, at + 3);
}

export function readSequence(bytes: Uint8Array, at: number): number {
  return (bytes[at]! * 0x10000 + readUint16(bytes, at + 1)) * TWO_32 + readUint32(bytes, at + 3);
}

/** Bytes as text, one character per byte. */
export function readText(bytes: Uint8Array, start: number, end: number): string {
  return toBuffer(bytes).toString("latin1", start, end);
}

const TWO_32 = 2 ** 32;

function readUint16(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 8) | bytes[at + 1]!;
}

export function readUint32(bytes: Uint8Array, at: number): number {
  return readUint16(bytes, at) * 0x10000 + readUint16(bytes, at + 2);
}
