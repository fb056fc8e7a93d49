import { writeTwoDigits } from "@rowhouse/protocol/date-time";
import { isPlainKey } from "@rowhouse/protocol/entity-url";
import { copyBytes } from "@rowhouse/protocol/json-value";
import { BeginningViews } from "../byte-views.ts";
import {
  type EntityHead,
  ETAG_END,
  PARTITION_KEY,
  PATH_ROW_KEY,
  ROW_KEY,
  TIMESTAMP,
  TYPED_TIMESTAMP,
} from "./entity-head.ts";
import type { MetadataLevel } from "./negotiate.ts";
import type { RecordView } from "./record-view.ts";

/**
 * The heads of the entities in a list, and in later lists of the same form. While the day stays the
 * same, each head is the previous one with other keys and another time of day. Changing those takes
 * 90 ns, or half of that in a transaction, whose entities share their Timestamp; writing a head from
 * its parts takes 290, three times the copying of 1 KB of properties.
 *
 * At fullmetadata the keys are in two paths as well. Such a head is repeated if the keys are plain and
 * have the lengths of the previous ones.
 *
 * A Timestamp has up to six digits after its second, without trailing zeros. So there are seven
 * texts: entities written one by one have a digit less now and then.
 */
export class EntityHeadTemplate {
  readonly #head: EntityHead;
  readonly #level: MetadataLevel;
  readonly #texts: (HeadText | undefined)[] = [];
  #last: HeadText | undefined;

  constructor(head: EntityHead, level: MetadataLevel) {
    this.#head = head;
    this.#level = level;
  }

  /**
   * The head of `view`, valid until the next call; undefined if it has another form and must go
   * through `write`.
   */
  repeat(view: RecordView): Uint8Array | undefined {
    return this.#textAt(view.timestampMicros)?.withKeys(view);
  }

  /** The control information of `view` with its brace, likewise; not at fullmetadata. */
  repeatControl(view: RecordView): Uint8Array | undefined {
    return this.#textAt(view.timestampMicros)?.control;
  }

  /** Writes a head from its parts, and returns where it ends. */
  write(out: Uint8Array, at: number, view: RecordView): number {
    const end = this.#head.write(out, at, view);
    if (end - at > TEXT_BYTES_MAX) return end;
    if (this.#level === "fullmetadata" && !hasPlainKeys(view)) return end;
    const micros = view.timestampMicros;
    const { day, digits } = timeOf(micros);
    const text = this.#texts[digits] ?? new HeadText(this.#head, this.#level, digits);
    text.set(out, at, end, view, micros, day);
    this.#texts[digits] = text;
    this.#last = text;
    return end;
  }

  /** The text with this Timestamp. */
  #textAt(micros: number): HeadText | undefined {
    if (micros === this.#last?.micros) return this.#last;
    const time = timeOf(micros);
    const text = this.#texts[time.digits];
    if (!text?.setTime(micros, time)) return undefined;
    this.#last = text;
    return text;
  }
}

/** The last head whose Timestamp has this many digits after its second. */
class HeadText {
  readonly #form: EntityHead;
  readonly #isBare: boolean;
  readonly #isFull: boolean;
  /** From the closing quote of the RowKey to the hour. */
  readonly #dateBytes: number;
  readonly #digits: number;
  /** What the digits take, with their point. */
  readonly #fractionBytes: number;
  readonly #text = Buffer.allocUnsafe(TEXT_BYTES_MAX);
  readonly #views = new BeginningViews(this.#text);
  /** The Timestamp in the text. */
  micros = Number.NaN;
  #day = Number.NaN;
  #etagTimeAt = 0;
  #partitionKeyAt = 0;
  #partitionKeyEnd = 0;
  #rowKeyAt = 0;
  #rowKeyEnd = 0;
  /** Where the paths have the partition key; only at fullmetadata. */
  #pathKeysAt: readonly number[] = [];
  /** The whole text. */
  #head: Uint8Array = new Uint8Array(0);
  /** The text in front of the keys. */
  control: Uint8Array = this.#head;

  constructor(form: EntityHead, level: MetadataLevel, digits: number) {
    this.#form = form;
    this.#isBare = level === "nometadata";
    this.#isFull = level === "fullmetadata";
    this.#dateBytes = (this.#isFull ? TYPED_TIMESTAMP : TIMESTAMP).length + DATE_BYTES;
    this.#digits = digits;
    this.#fractionBytes = digits === 0 ? 0 : 1 + digits;
  }

  /** Copies a head from `bytes`. */
  set(
    bytes: Uint8Array,
    start: number,
    end: number,
    view: RecordView,
    micros: number,
    day: number,
  ): void {
    this.#head = this.#views.of(copyBytes(this.#text, 0, bytes, start, end));
    this.micros = micros;
    this.#day = day;
    this.#rowKeyEnd = this.#head.length - (this.#dateBytes + TIME_TAIL_BYTES + this.#fractionBytes);
    this.#rowKeyAt = this.#rowKeyEnd - (view.propertiesAt - view.rowKeyAt);
    this.#partitionKeyEnd = this.#rowKeyAt - ROW_KEY.length;
    this.#partitionKeyAt = this.#partitionKeyEnd - (view.rowKeyAt - view.partitionKeyAt);
    const controlEnd = this.#partitionKeyAt - PARTITION_KEY.length;
    this.control = this.#views.of(controlEnd);
    this.#etagTimeAt = controlEnd - (ETAG_TAIL_BYTES + this.#fractionBytes);
    if (this.#isFull) this.#findPaths();
  }

  #findPaths(): void {
    const { etagInstantAt, partitionKeysAt } = this.#form.pathPlaces(
      this.#partitionKeyEnd - this.#partitionKeyAt,
      this.#rowKeyEnd - this.#rowKeyAt,
      ETAG_INSTANT_BYTES + this.#fractionBytes,
    );
    this.#etagTimeAt = etagInstantAt + DATE_BYTES;
    this.#pathKeysAt = partitionKeysAt;
  }

  /** Writes the time of day in both places. @returns whether the text is of this day */
  setTime(micros: number, { second, day, fraction }: TimeParts): boolean {
    if (day !== this.#day) return false;
    this.micros = micros;
    const text = this.#text;
    const secondOfDay = second - day * SECONDS_PER_DAY;
    const minutes = (secondOfDay / 60) | 0;
    const hour = (minutes / 60) | 0;
    const at = this.#rowKeyEnd + this.#dateBytes;
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

  /** The text with the keys of `view`; undefined if they do not fit. */
  withKeys(view: RecordView): Uint8Array | undefined {
    if (this.#isFull) return this.#withPlainKeys(view);
    if (!this.#isOfPartition(view) && !this.#setPartitionKey(view)) return undefined;
    const { record, rowKeyAt, propertiesAt } = view;
    const rowKeyEnd = this.#rowKeyAt + propertiesAt - rowKeyAt;
    if (rowKeyEnd !== this.#rowKeyEnd && !this.#move(this.#rowKeyEnd, rowKeyEnd)) return undefined;
    this.#rowKeyEnd = rowKeyEnd;
    writeBytes(this.#text, this.#rowKeyAt, record, rowKeyAt, propertiesAt);
    return this.#head;
  }

  #withPlainKeys(view: RecordView): Uint8Array | undefined {
    const { record, partitionKeyAt, rowKeyAt, propertiesAt } = view;
    const partitionKeyBytes = rowKeyAt - partitionKeyAt;
    if (partitionKeyBytes !== this.#partitionKeyEnd - this.#partitionKeyAt) return undefined;
    if (propertiesAt - rowKeyAt !== this.#rowKeyEnd - this.#rowKeyAt) return undefined;
    if (!hasPlainKeys(view)) return undefined;
    const text = this.#text;
    if (!this.#isOfPartition(view)) {
      writeBytes(text, this.#partitionKeyAt, record, partitionKeyAt, rowKeyAt);
      for (const at of this.#pathKeysAt) writeBytes(text, at, record, partitionKeyAt, rowKeyAt);
    }
    writeBytes(text, this.#rowKeyAt, record, rowKeyAt, propertiesAt);
    for (const at of this.#pathKeysAt) {
      const to = at + partitionKeyBytes + PATH_ROW_KEY.length;
      writeBytes(text, to, record, rowKeyAt, propertiesAt);
    }
    return this.#head;
  }

  #isOfPartition({ record, partitionKeyAt, rowKeyAt }: RecordView): boolean {
    const text = this.#text;
    const end = this.#partitionKeyEnd;
    if (rowKeyAt - partitionKeyAt !== end - this.#partitionKeyAt) return false;
    // Backwards: keys differ at the end more often than at the beginning.
    for (let i = 1; i <= rowKeyAt - partitionKeyAt; i++) {
      if (text[end - i] !== record[rowKeyAt - i]) return false;
    }
    return true;
  }

  /** @returns whether there is room for it */
  #setPartitionKey({ record, partitionKeyAt, rowKeyAt }: RecordView): boolean {
    const end = this.#partitionKeyAt + rowKeyAt - partitionKeyAt;
    const by = end - this.#partitionKeyEnd;
    if (by !== 0 && !this.#move(this.#partitionKeyEnd, end)) return false;
    this.#partitionKeyEnd = end;
    this.#rowKeyAt += by;
    this.#rowKeyEnd += by;
    writeBytes(this.#text, this.#partitionKeyAt, record, partitionKeyAt, rowKeyAt);
    return true;
  }

  /**
   * Moves the text from `from` on to `to`, so that another key fits in front of it.
   * @returns whether there is room for that
   */
  #move(from: number, to: number): boolean {
    const { length } = this.#head;
    const end = length + to - from;
    if (end > TEXT_BYTES_MAX) return false;
    this.#text.copyWithin(to, from, length);
    this.#head = this.#views.of(end);
    return true;
  }
}

/** Whether the keys are the same in the paths. */
function hasPlainKeys({ record, partitionKeyAt, propertiesAt }: RecordView): boolean {
  return isPlainKey(record, partitionKeyAt, propertiesAt);
}

/** Keys are short: a call of the native copy would take longer. */
function writeBytes(
  out: Uint8Array,
  at: number,
  bytes: Uint8Array,
  start: number,
  end: number,
): void {
  for (let to = at, from = start; from < end; ) out[to++] = bytes[from++]!;
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

/** Longer heads are written from their parts. */
const TEXT_BYTES_MAX = 1024;
const SECONDS_PER_DAY = 86_400;
const FRACTION_DIGITS_MAX = 6;
const DATE_BYTES = "2020-01-01T".length;
/** Without a fraction. */
const ETAG_INSTANT_BYTES = DATE_BYTES + "00%3A00%3A00Z".length;
/** From the hour to the end, without a fraction. */
const TIME_TAIL_BYTES = '00:00:00Z"'.length;
/** From the hour in the ETag to the end of the control information, without a fraction. */
const ETAG_TAIL_BYTES = "00%3A00%3A00Z".length + ETAG_END.length;
