import assert from "node:assert/strict";
import type { Entry } from "../engine/engine.ts";
import {
  type ReadyPlace,
  readRecordKey,
  readSequence,
  readText,
  readTime,
  readUint32,
  writeSequence,
  writeTime,
} from "./message-keys.ts";

/** A stored message. Times are milliseconds since 1970. */
export interface Message extends ReadyPlace {
  readonly insertedAt: number;
  /** How often the message was received. */
  readonly dequeueCount: number;
  /** How many pop receipts were issued before the current one, modulo 256. */
  readonly generation: number;
  /** Eight bytes, one character each, that make the current pop receipt unguessable. */
  readonly nonce: string;
  /** UTF-8. */
  readonly text: Uint8Array;
}

/*
 *   format(1) visible(6) inserted(6) sequence(7) dequeue count(4) generation(1) nonce(8) text
 *
 * The key holds the rest: expiry and id.
 */
const FORMAT = 1;
const VISIBLE = 1;
const INSERTED = 7;
const SEQUENCE = 13;
const DEQUEUE_COUNT = 20;
const GENERATION = 24;
const NONCE = 25;
const TEXT = 33;
export const NONCE_BYTES = TEXT - NONCE;

export function encodeMessage(message: Message): Uint8Array {
  const bytes = Buffer.allocUnsafe(TEXT + message.text.length);
  bytes[0] = FORMAT;
  writeTime(bytes, message.visibleAt, VISIBLE);
  writeTime(bytes, message.insertedAt, INSERTED);
  writeSequence(bytes, message.sequence, SEQUENCE);
  bytes.writeUInt32BE(message.dequeueCount, DEQUEUE_COUNT);
  bytes[GENERATION] = message.generation;
  bytes.write(message.nonce, NONCE, "latin1");
  bytes.set(message.text, TEXT);
  return bytes;
}

/** Shares the bytes of the entry, which must therefore not be lent. */
export function decodeMessage({ key, value }: Entry): Message {
  assert(value[0] === FORMAT && value.length >= TEXT, "The entry is not a message.");
  const { expiresAt, id } = readRecordKey(key);
  return {
    expiresAt,
    id,
    visibleAt: readTime(value, VISIBLE),
    insertedAt: readTime(value, INSERTED),
    sequence: readSequence(value, SEQUENCE),
    dequeueCount: readUint32(value, DEQUEUE_COUNT),
    generation: value[GENERATION]!,
    nonce: readText(value, NONCE, TEXT),
    text: value.subarray(TEXT),
  };
}

/** The location of the ready key: all that a search needs of an entry, which may be lent. */
export function readPlace({ key, value }: Entry): ReadyPlace {
  assert(value[0] === FORMAT, "The entry is not a message.");
  const { expiresAt, id } = readRecordKey(key);
  return {
    expiresAt,
    id,
    visibleAt: readTime(value, VISIBLE),
    sequence: readSequence(value, SEQUENCE),
  };
}
