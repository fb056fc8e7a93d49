import { writeTwoDigits } from "@rowhouse/protocol/date-time";
import { type EntityHead, ETAG_END, PARTITION_KEY, ROW_KEY, TIMESTAMP } from "./entity-head.ts";
import type { RecordView } from "./record-view.ts";

/**
 * The heads of the entities in a list, and in later lists of the same form, at nometadata and
 * minimalmetadata. While the partition, the day and all lengths stay the same, each head is the
 * previous one with another row key and time of day. Changing those and copying the text takes 90
 * ns; writing a head from its parts takes 290, three times the copying of 1 KB of properties.
 * Entities of one transaction share their Timestamp: if it is unchanged, the head takes half of the
 * 90 ns.
 *
 * A Timestamp has from no to six digits after its second, without trailing zeros. So there are seven
 * texts: of entities written one by one, a tenth has a digit less than the others.
 */
export class HeadSequence {
  readonly #head: EntityHead;
  readonly #texts: readonly HeadText[];
  #last: HeadText;

  constructor(head: EntityHead, level: "nometadata" | "minimalmetadata") {
    this.#head = head;
    this.#texts = Array.from(
      { length: FRACTION_DIGITS_MAX + 1 },
      (_, digits) => new HeadText(digits, level === "nometadata"),
    );
    this.#last = this.#texts[0]!;
  }

  /**
   * The head of `view`, valid until the next call; undefined if it has another form and must go
   * through `write`.
   */
  repeat(view: RecordView): Uint8Array | undefined {
    const micros = view.timestampMicros;
    if (micros === this.#last.micros) return this.#last.withRowKey(view);
    const time = timeOf(micros);
    const text = this.#texts[time.digits]!;
    if (!text.setTime(micros, time)) return undefined;
    this.#last = text;
    return text.withRowKey(view);
  }

  /** Writes a head from its parts, and returns where it ends. */
  write(out: Uint8Array, at: number, view: RecordView): number {
    const end = this.#head.write(out, at, view);
    const micros = view.timestampMicros;
    const time = timeOf(micros);
    this.#last = this.#texts[time.digits]!;
    this.#last.set(out.subarray(at, end), view, micros, time);
    return end;
  }
}

/** The last head whose Timestamp has this many digits after its second. */
class HeadText {
  /** Of the Timestamp, after its second. */
  readonly #digits: number;
  readonly #isBare: boolean;
  /** The Timestamp in the text. */
  micros = Number.NaN;
  #text: Uint8Array = new Uint8Array(0);
  #day = Number.NaN;
  #etagTimeAt = 0;
  #partitionKeyAt = 0;
  #partitionKeyEnd = 0;
  #rowKeyAt = 0;
  #rowKeyEnd = 0;
  #timeAt = 0;

  constructor(digits: number, isBare: boolean) {
    this.#digits = digits;
    this.#isBare = isBare;
  }

  /** The text with this row key; undefined if other keys are not as long, or the partition is another. */
  withRowKey(view: RecordView): Uint8Array | undefined {
    if (!this.#hasKeysLike(view)) return undefined;
    const text = this.#text;
    const { record, propertiesAt } = view;
    for (let to = this.#rowKeyAt, from = view.rowKeyAt; from < propertiesAt; ) {
      text[to++] = record[from++]!;
    }
    return text;
  }

  set(head: Uint8Array, view: RecordView, micros: number, { day }: TimeParts): void {
    if (this.#text.length !== head.length) this.#text = new Uint8Array(head.length);
    this.#text.set(head);
    this.micros = micros;
    this.#day = day;
    const fractionBytes = this.#digits === 0 ? 0 : 1 + this.#digits;
    this.#timeAt = head.length - (TIME_TAIL_BYTES + fractionBytes);
    this.#rowKeyEnd = this.#timeAt - TIMESTAMP_DATE_BYTES;
    this.#rowKeyAt = this.#rowKeyEnd - (view.propertiesAt - view.rowKeyAt);
    this.#partitionKeyEnd = this.#rowKeyAt - ROW_KEY.length;
    this.#partitionKeyAt = this.#partitionKeyEnd - (view.rowKeyAt - view.partitionKeyAt);
    this.#etagTimeAt =
      this.#partitionKeyAt - PARTITION_KEY.length - (ETAG_TAIL_BYTES + fractionBytes);
  }

  #hasKeysLike({ record, partitionKeyAt, rowKeyAt, propertiesAt }: RecordView): boolean {
    const text = this.#text;
    const end = this.#partitionKeyEnd;
    if (propertiesAt - rowKeyAt !== this.#rowKeyEnd - this.#rowKeyAt) return false;
    if (rowKeyAt - partitionKeyAt !== end - this.#partitionKeyAt) return false;
    // Backwards: keys differ at the end more often than at the beginning.
    for (let i = 1; i <= rowKeyAt - partitionKeyAt; i++) {
      if (text[end - i] !== record[rowKeyAt - i]) return false;
    }
    return true;
  }

  /** Writes the time of day in both places. @returns whether the day is that of the text */
  setTime(micros: number, { second, day, fraction }: TimeParts): boolean {
    if (day !== this.#day) return false;
    this.micros = micros;
    const text = this.#text;
    const secondOfDay = second - day * SECONDS_PER_DAY;
    const minutes = (secondOfDay / 60) | 0;
    const hour = (minutes / 60) | 0;
    const at = this.#timeAt;
    writeTwoDigits(text, at, hour);
    writeTwoDigits(text, at + 3, minutes % 60);
    writeTwoDigits(text, at + 6, secondOfDay % 60);
    writeDigits(text, at + 9, fraction, this.#digits);
    if (this.#isBare) return true;
    const etagAt = this.#etagTimeAt;
    writeTwoDigits(text, etagAt, hour);
    writeTwoDigits(text, etagAt + 5, minutes % 60);
    writeTwoDigits(text, etagAt + 10, secondOfDay % 60);
    writeDigits(text, etagAt + 13, fraction, this.#digits);
    return true;
  }
}

interface TimeParts {
  readonly second: number;
  readonly day: number;
  /** The fraction of the second without its trailing zeros, `digits` long. */
  readonly fraction: number;
  readonly digits: number;
}

function timeOf(micros: number): TimeParts {
  const second = Math.floor(micros / 1_000_000);
  const day = Math.floor(second / SECONDS_PER_DAY);
  let fraction = (micros - second * 1_000_000) | 0;
  let digits = FRACTION_DIGITS_MAX;
  for (; digits > 0 && fraction % 10 === 0; digits--) fraction = (fraction / 10) | 0;
  return { second, day, fraction, digits };
}

function writeDigits(out: Uint8Array, at: number, value: number, digits: number): void {
  let rest = value;
  for (let digit = digits - 1; digit >= 0; digit--) {
    const tenth = (rest / 10) | 0;
    out[at + digit] = 0x30 + rest - tenth * 10;
    rest = tenth;
  }
}

const SECONDS_PER_DAY = 86_400;
const FRACTION_DIGITS_MAX = 6;
/** From the closing quote of the RowKey to the hour. */
const TIMESTAMP_DATE_BYTES = TIMESTAMP.length + "2020-01-01T".length;
/** From the hour to the end, without a fraction. */
const TIME_TAIL_BYTES = '00:00:00Z"'.length;
/** From the hour in the ETag to the end of the control information, without a fraction. */
const ETAG_TAIL_BYTES = "00%3A00%3A00Z".length + ETAG_END.length;
