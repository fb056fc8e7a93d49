import {
  secondsOfMicros,
  ticksWithinSecond,
  writeEtagInstant,
  writeInstant,
} from "@rowhouse/protocol/date-time";
import { entityPath, isPlainKey } from "@rowhouse/protocol/entity-url";
import { encodeJsonString } from "@rowhouse/protocol/json-string";
import { copyBytes } from "@rowhouse/protocol/json-value";
import type { MetadataLevel } from "./negotiate.ts";
import type { RecordView } from "./record-view.ts";

/** The resource from which entities were requested; every `WireRequest` is one. */
export interface EntityPosition {
  /** Without a trailing slash. */
  readonly baseUrl: string;
  readonly account: { readonly name: string };
  /** Contains the name of the table, as the client wrote it. */
  readonly location: { readonly name: string };
}

/**
 * Writes the part of an entity's JSON object before its properties: control information, which
 * differs by metadata level, then keys and Timestamp.
 */
export class EntityHead {
  readonly #baseUrl: string;
  readonly #account: string;
  readonly #level: MetadataLevel;
  readonly #table: string;
  /** From the brace to the ETag or, at fullmetadata, to the path in `odata.id`. */
  readonly #opening: Uint8Array;
  /** The beginning of an entity's path. */
  readonly #pathOpening: Uint8Array;
  /** Upper bound for the length of a head without its keys. */
  readonly #fixedBytesMax: number;

  /** `context` is the first member of a single entity, with its comma; "" in lists. */
  constructor(
    { baseUrl, account, location }: EntityPosition,
    level: MetadataLevel,
    context: string,
  ) {
    this.#baseUrl = baseUrl;
    this.#account = account.name;
    this.#level = level;
    this.#table = location.name;
    this.#opening = encoder.encode(
      level === "fullmetadata"
        ? `{${context}"odata.type":${encodeJsonString(`${account.name}.${location.name}`)},` +
            `"odata.id":${encodeJsonString(`${baseUrl}/`).slice(0, -1)}`
        : `{${context}"odata.etag":"W/\\"datetime'`,
    );
    this.#pathOpening = encoder.encode(`${location.name}(PartitionKey='`);
    this.#fixedBytesMax = this.#opening.length + 2 * location.name.length + CONSTANT_BYTES_MAX;
  }

  isFor({ baseUrl, account, location }: EntityPosition, level: MetadataLevel): boolean {
    return (
      level === this.#level &&
      location.name === this.#table &&
      baseUrl === this.#baseUrl &&
      account.name === this.#account
    );
  }

  bytesMax(view: RecordView): number {
    const keyBytes = view.propertiesAt - view.partitionKeyAt;
    // A byte of a key may take three bytes in each of the two paths.
    return this.#fixedBytesMax + keyBytes * (this.#level === "fullmetadata" ? 7 : 1);
  }

  /** Writes the brace and all members up to Timestamp, and returns where they end. */
  write(out: Uint8Array, at: number, view: RecordView): number {
    const { record } = view;
    const micros = view.timestampMicros;
    let next = append(out, this.writeControl(out, at, view), PARTITION_KEY);
    next = copyBytes(out, next, record, view.partitionKeyAt, view.rowKeyAt);
    next = append(out, next, ROW_KEY);
    next = copyBytes(out, next, record, view.rowKeyAt, view.propertiesAt);
    next = append(out, next, this.#level === "fullmetadata" ? TYPED_TIMESTAMP : TIMESTAMP);
    next = writeInstant(out, next, secondsOfMicros(micros), ticksWithinSecond(micros));
    out[next] = QUOTE;
    if (this.#level === "nometadata") out[at] = OPENING_BRACE;
    return next + 1;
  }

  /**
   * Writes the brace and the control information, and returns where they end, which is where the
   * comma of the next member goes. At nometadata there is no control information, and the caller
   * must replace that comma with the brace.
   */
  writeControl(out: Uint8Array, at: number, view: RecordView): number {
    if (this.#level === "nometadata") return at;
    const micros = view.timestampMicros;
    const seconds = secondsOfMicros(micros);
    const ticks = ticksWithinSecond(micros);
    let next = append(out, at, this.#opening);
    if (this.#level === "minimalmetadata") {
      next = writeEtagInstant(out, next, seconds, ticks);
      return append(out, next, ETAG_END);
    }
    const pathAt = next;
    const pathEnd = this.#writePath(out, next, view);
    next = append(out, pathEnd, ETAG);
    next = append(out, writeEtagInstant(out, next, seconds, ticks), EDIT_LINK);
    next = copyBytes(out, next, out, pathAt, pathEnd);
    out[next] = QUOTE;
    return next + 1;
  }

  /**
   * Where a head at fullmetadata has the partition key in each of its two paths, and where it has the ETag's
   * instant. The keys must be plain; all lengths are in bytes.
   */
  pathPlaces(partitionKeyBytes: number, rowKeyBytes: number, instantBytes: number): PathPlaces {
    const { length } = this.#pathOpening;
    const first = this.#opening.length;
    const pathBytes =
      length + partitionKeyBytes + PATH_ROW_KEY.length + rowKeyBytes + PATH_END.length;
    const etagInstantAt = first + pathBytes + ETAG.length;
    const second = etagInstantAt + instantBytes + EDIT_LINK.length;
    return { partitionKeysAt: [first + length, second + length], etagInstantAt };
  }

  #writePath(out: Uint8Array, at: number, view: RecordView): number {
    const { record, partitionKeyAt, rowKeyAt, propertiesAt } = view;
    if (!isPlainKey(record, partitionKeyAt, propertiesAt)) {
      return writeText(out, at, entityPath(this.#table, view.partitionKey, view.rowKey));
    }
    let next = append(out, at, this.#pathOpening);
    next = append(out, copyBytes(out, next, record, partitionKeyAt, rowKeyAt), PATH_ROW_KEY);
    return append(out, copyBytes(out, next, record, rowKeyAt, propertiesAt), PATH_END);
  }
}

export interface PathPlaces {
  readonly partitionKeysAt: readonly [first: number, second: number];
  readonly etagInstantAt: number;
}

export function append(out: Uint8Array, at: number, text: Uint8Array): number {
  out.set(text, at);
  return at + text.length;
}

function writeText(out: Uint8Array, at: number, text: string): number {
  return at + encoder.encodeInto(text, out.subarray(at)).written;
}

const encoder = new TextEncoder();

export const PARTITION_KEY = encoder.encode(',"PartitionKey":"');
export const ROW_KEY = encoder.encode('","RowKey":"');
export const TIMESTAMP = encoder.encode('","Timestamp":"');
export const TYPED_TIMESTAMP = encoder.encode(
  '","Timestamp@odata.type":"Edm.DateTime","Timestamp":"',
);
const ETAG = encoder.encode('","odata.etag":"W/\\"datetime\'');
export const ETAG_END = encoder.encode('\'\\""');
export const PATH_ROW_KEY = encoder.encode("',RowKey='");
const PATH_END = encoder.encode("')");
const EDIT_LINK = encoder.encode('\'\\"","odata.editLink":"');
/** The constants above, two instants, and everything in two paths except their keys. */
const CONSTANT_BYTES_MAX = 320;

const QUOTE = 0x22;
export const OPENING_BRACE = 0x7b;
