import { writeTwoDigits } from "@rowhouse/protocol/date-time";
import {
  append,
  type EntityHead,
  ETAG_END,
  PARTITION_KEY,
  ROW_KEY,
  TIMESTAMP,
} from "./entity-head.ts";
import type { RecordView } from "./record-view.ts";

/**
 * The heads of one list, at nometadata and minimalmetadata: each is the one before it with another
 * row key and time of day, as long as partition, day and lengths are the same. Changing those and
 * copying the whole takes 90 ns, a head written from its parts 290: thrice what it takes to copy
 * the properties of 1 KB.
 */
export class HeadSequence {
  readonly #head: EntityHead;
  readonly #isBare: boolean;
  #text: Uint8Array = new Uint8Array(0);
  #day = Number.NaN;
  #partitionKeyAt = 0;
  #partitionKeyEnd = 0;
  #rowKeyAt = 0;
  #rowKeyEnd = 0;

  constructor(head: EntityHead, level: "nometadata" | "minimalmetadata") {
    this.#head = head;
    this.#isBare = level === "nometadata";
  }

  write(out: Uint8Array, at: number, view: RecordView): number {
    const micros = view.timestampMicros;
    const second = Math.floor(micros / 1_000_000);
    const fraction = micros - second * 1_000_000;
    const day = Math.floor(second / SECONDS_PER_DAY);
    if (fraction % 10 === 0) return this.#head.write(out, at, view); // Is shorter.
    if (day !== this.#day || !this.#hasKeysLike(view)) return this.#begin(out, at, view, day);
    this.#setRowKey(view);
    this.#setTime(second - day * SECONDS_PER_DAY, fraction);
    return append(out, at, this.#text);
  }

  #begin(out: Uint8Array, at: number, view: RecordView, day: number): number {
    const end = this.#head.write(out, at, view);
    this.#text = new Uint8Array(out.subarray(at, end));
    this.#day = day;
    this.#rowKeyEnd = this.#text.length - TIMESTAMP_TAIL_BYTES;
    this.#rowKeyAt = this.#rowKeyEnd - (view.propertiesAt - view.rowKeyAt);
    this.#partitionKeyEnd = this.#rowKeyAt - ROW_KEY.length;
    this.#partitionKeyAt = this.#partitionKeyEnd - (view.rowKeyAt - view.partitionKeyAt);
    return end;
  }

  #hasKeysLike({ record, partitionKeyAt, rowKeyAt, propertiesAt }: RecordView): boolean {
    const text = this.#text;
    const end = this.#partitionKeyEnd;
    if (propertiesAt - rowKeyAt !== this.#rowKeyEnd - this.#rowKeyAt) return false;
    if (rowKeyAt - partitionKeyAt !== end - this.#partitionKeyAt) return false;
    // Backwards: keys differ at their ends more often than where they begin.
    for (let i = 1; i <= rowKeyAt - partitionKeyAt; i++) {
      if (text[end - i] !== record[rowKeyAt - i]) return false;
    }
    return true;
  }

  #setRowKey({ record, rowKeyAt, propertiesAt }: RecordView): void {
    const text = this.#text;
    for (let at = this.#rowKeyAt, key = rowKeyAt; key < propertiesAt; ) text[at++] = record[key++]!;
  }

  /** Writes the time of day, wherever it stands, in its full length. */
  #setTime(second: number, fraction: number): void {
    const text = this.#text;
    const minutes = (second / 60) | 0;
    const hour = (minutes / 60) | 0;
    const at = text.length - TIME_TAIL_BYTES;
    writeTwoDigits(text, at, hour);
    writeTwoDigits(text, at + 3, minutes % 60);
    writeTwoDigits(text, at + 6, second % 60);
    writeSixDigits(text, at + 9, fraction);
    if (this.#isBare) return;
    const etagAt = this.#partitionKeyAt - PARTITION_KEY.length - ETAG_TAIL_BYTES;
    writeTwoDigits(text, etagAt, hour);
    writeTwoDigits(text, etagAt + 5, minutes % 60);
    writeTwoDigits(text, etagAt + 10, second % 60);
    writeSixDigits(text, etagAt + 13, fraction);
  }
}

function writeSixDigits(out: Uint8Array, at: number, value: number): void {
  let rest = value | 0;
  for (let digit = 5; digit >= 0; digit--) {
    const tenth = (rest / 10) | 0;
    out[at + digit] = 0x30 + rest - tenth * 10;
    rest = tenth;
  }
}

const SECONDS_PER_DAY = 86_400;
/** From the RowKey's quote to the end. */
const TIMESTAMP_TAIL_BYTES = TIMESTAMP.length + '2020-01-01T00:00:00.123456Z"'.length;
/** From the hour to the end. */
const TIME_TAIL_BYTES = '00:00:00.123456Z"'.length;
/** From the hour in the ETag to the end of control information. */
const ETAG_TAIL_BYTES = "00%3A00%3A00.123456Z".length + ETAG_END.length;
