import {
  secondsOfMicros,
  ticksWithinSecond,
  writeEtagInstant,
  writeInstant,
} from "@rowhouse/protocol/date-time";
import { isAnnotated } from "@rowhouse/protocol/edm";
import { entityPath } from "@rowhouse/protocol/entity-url";
import { encodeJsonString } from "@rowhouse/protocol/json-string";
import { copyBytes } from "@rowhouse/protocol/json-value";
import type { MetadataLevel } from "./negotiate.ts";
import { Projection } from "./projection.ts";
import { RecordView } from "./record-view.ts";

/** Where entities were asked for; a `WireRequest` is one. */
export interface EntityPlace {
  /** Without a slash at its end. */
  readonly baseUrl: string;
  readonly account: { readonly name: string };
  /** Its name is the table's, as the client wrote it. */
  readonly location: { readonly name: string };
}

/** The body of one entity, as Get Entity and Insert Entity answer it. */
export function entityJson(
  record: Uint8Array,
  place: EntityPlace,
  level: MetadataLevel,
  select?: readonly string[],
): Uint8Array {
  view.reset(record);
  const context = contextMember(place, level, "/@Element", select);
  const writer = new EntityWriter(place, level, select, context);
  const body = Buffer.allocUnsafe(writer.bytesMax(view));
  return body.subarray(0, writer.write(body, 0, view));
}

/** The body of a page of entities, written as they come. */
export class EntityListWriter {
  readonly #writer: EntityWriter;
  #body: Uint8Array = Buffer.allocUnsafe(FIRST_BYTES);
  #at: number;
  #isEmpty = true;

  constructor(place: EntityPlace, level: MetadataLevel, select: readonly string[] | undefined) {
    this.#writer = new EntityWriter(place, level, select, "");
    const opening = `{${contextMember(place, level, "", select)}"value":[`;
    this.#reserve(opening.length * 3);
    this.#at = encoder.encodeInto(opening, this.#body).written;
  }

  add(view: RecordView): void {
    this.#reserve(this.#at + 1 + this.#writer.bytesMax(view));
    if (this.#isEmpty) this.#isEmpty = false;
    else this.#body[this.#at++] = COMMA;
    this.#at = this.#writer.write(this.#body, this.#at, view);
  }

  /** The whole body, which is the caller's then. */
  finish(): Uint8Array {
    this.#reserve(this.#at + 2);
    this.#body[this.#at] = 0x5d; // ]
    this.#body[this.#at + 1] = CLOSING_BRACE;
    return this.#body.subarray(0, this.#at + 2);
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#body.length) return;
    const larger = Buffer.allocUnsafe(Math.max(bytes, 2 * this.#body.length));
    larger.set(this.#body.subarray(0, this.#at));
    this.#body = larger;
  }
}

/**
 * Writes stored entities as JSON objects of one metadata level. Members come in the order of the
 * service, properties in the order stored; a projection's in the order selected.
 */
class EntityWriter {
  readonly #level: MetadataLevel;
  readonly #table: string;
  readonly #projection: Projection | undefined;
  /** From the brace to where the ETag begins, or at fullmetadata the path in `odata.id`. */
  readonly #opening: Uint8Array;

  /** `context` is the member that a lone entity has before all others, with its comma. */
  constructor(
    place: EntityPlace,
    level: MetadataLevel,
    select: readonly string[] | undefined,
    context: string,
  ) {
    this.#level = level;
    this.#table = place.location.name;
    this.#projection = select && new Projection(select, level);
    this.#opening = encoder.encode(`{${context}${openingMembers(place, level)}`);
  }

  /** No entity's text is longer. */
  bytesMax(view: RecordView): number {
    const copied = this.#opening.length + view.record.length + FIXED_BYTES_MAX;
    if (this.#level !== "fullmetadata") return copied + (this.#projection?.bytesMax ?? 0);
    const pathBytesMax = this.#table.length + 3 * view.record.length;
    return copied + (this.#projection?.bytesMax ?? 0) + 2 * pathBytesMax;
  }

  write(out: Uint8Array, at: number, view: RecordView): number {
    const micros = view.timestampMicros;
    const seconds = secondsOfMicros(micros);
    const ticks = ticksWithinSecond(micros);
    const isBare = this.#level === "nometadata";
    let next = isBare ? at : this.#writeControl(out, at, view, seconds, ticks);
    if (this.#projection !== undefined) {
      next = this.#projection.write(out, next, view);
    } else {
      const { record } = view;
      next = append(out, next, PARTITION_KEY);
      next = copyBytes(out, next, record, view.partitionKeyAt, view.rowKeyAt);
      next = append(out, next, ROW_KEY);
      next = copyBytes(out, next, record, view.rowKeyAt, view.propertiesAt);
      next = append(out, next, this.#level === "fullmetadata" ? TYPED_TIMESTAMP : TIMESTAMP);
      next = writeInstant(out, next, seconds, ticks);
      out[next++] = QUOTE;
      next =
        isBare && view.annotated
          ? writeBare(out, next, view)
          : copyBytes(out, next, record, view.propertiesAt, record.length);
    }
    if (isBare) out[at] = OPENING_BRACE; // Where the comma before the first member is.
    out[next] = CLOSING_BRACE;
    return next + 1;
  }

  /** Writes the brace and all control information. */
  #writeControl(
    out: Uint8Array,
    at: number,
    view: RecordView,
    seconds: number,
    ticks: number,
  ): number {
    let next = append(out, at, this.#opening);
    if (this.#level === "minimalmetadata") {
      next = writeEtagInstant(out, next, seconds, ticks);
      return append(out, next, ETAG_END);
    }
    const path = entityPath(this.#table, view.partitionKey, view.rowKey);
    next = appendText(out, next, path);
    next = append(out, next, ETAG);
    next = writeEtagInstant(out, next, seconds, ticks);
    next = append(out, next, EDIT_LINK);
    next = appendText(out, next, path);
    out[next] = QUOTE;
    return next + 1;
  }
}

/** `"odata.metadata":"…",` for one entity or, without a suffix, a list; nothing at nometadata. */
function contextMember(
  { baseUrl, location }: EntityPlace,
  level: MetadataLevel,
  suffix: "/@Element" | "",
  select: readonly string[] | undefined,
): string {
  if (level === "nometadata") return "";
  const selected = select === undefined ? "" : `&$select=${select.join(",")}`;
  const context = `${baseUrl}/$metadata#${location.name}${suffix}${selected}`;
  return `"odata.metadata":${encodeJsonString(context)},`;
}

function openingMembers({ baseUrl, account, location }: EntityPlace, level: MetadataLevel): string {
  if (level !== "fullmetadata") return '"odata.etag":"W/\\"datetime\'';
  const type = encodeJsonString(`${account.name}.${location.name}`);
  return `"odata.type":${type},"odata.id":${encodeJsonString(`${baseUrl}/`).slice(0, -1)}`;
}

/** Writes the properties without their annotations, in runs between those that are annotated. */
function writeBare(out: Uint8Array, at: number, view: RecordView): number {
  const { record } = view;
  let next = at;
  let runStart = view.propertiesAt;
  for (let index = 0; index < view.count; index++) {
    if (!isAnnotated(view.form(index))) continue;
    next = copyBytes(out, next, record, runStart, view.startOf(index));
    runStart = view.bareAt(index);
  }
  return copyBytes(out, next, record, runStart, record.length);
}

function append(out: Uint8Array, at: number, text: Uint8Array): number {
  out.set(text, at);
  return at + text.length;
}

function appendText(out: Uint8Array, at: number, text: string): number {
  return at + encoder.encodeInto(text, out.subarray(at)).written;
}

const view = new RecordView();
const encoder = new TextEncoder();

const PARTITION_KEY = encoder.encode(',"PartitionKey":"');
const ROW_KEY = encoder.encode('","RowKey":"');
const TIMESTAMP = encoder.encode('","Timestamp":"');
const TYPED_TIMESTAMP = encoder.encode('","Timestamp@odata.type":"Edm.DateTime","Timestamp":"');
const ETAG = encoder.encode('","odata.etag":"W/\\"datetime\'');
const ETAG_END = encoder.encode('\'\\""');
const EDIT_LINK = encoder.encode('\'\\"","odata.editLink":"');
/** The constants above, two instants, the parentheses of two paths, and room to spare. */
const FIXED_BYTES_MAX = 512;

/** Most pages are short: from here on a body doubles. */
const FIRST_BYTES = 4096;

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;
