import { isAnnotated } from "@rowhouse/protocol/edm";
import { bareOffset } from "@rowhouse/protocol/json-property";
import { encodeJsonString } from "@rowhouse/protocol/json-string";
import { copyBytes } from "@rowhouse/protocol/json-value";
import { append, EntityHead, type EntityPosition, OPENING_BRACE } from "./entity-head.ts";
import { EntityHeadTemplate } from "./entity-head-template.ts";
import { HEAD_ROOM_BYTES, JsonBody, takePage } from "./json-body.ts";
import type { MetadataLevel } from "./negotiate.ts";
import { Projection } from "./projection.ts";
import { RecordView } from "./record-view.ts";

/** The body of one entity, as returned by Get Entity and Insert Entity. */
export function entityBody(
  record: Uint8Array,
  place: EntityPosition,
  level: MetadataLevel,
  select?: readonly string[],
): JsonBody {
  view.reset(record);
  const head =
    select === undefined && lastHead?.isFor(place, level)
      ? lastHead
      : loneHead(place, level, select);
  const projection = select && new Projection(select, level);
  const page = takePage();
  page.reserve(HEAD_ROOM_BYTES, entityBytesMax(head, projection, view));
  const out = page.bytes;
  const end = projection
    ? writeProjected(out, HEAD_ROOM_BYTES, view, level, head, projection)
    : writeProperties(out, head.write(out, HEAD_ROOM_BYTES, view), view, level);
  return new JsonBody(page, end);
}

/** Most requests repeat the previous one's form, and building a head costs as much as everything else. */
let lastHead: EntityHead | undefined;

function loneHead(
  place: EntityPosition,
  level: MetadataLevel,
  select: readonly string[] | undefined,
): EntityHead {
  const head = new EntityHead(place, level, contextMember(place, level, "/@Element", select));
  if (select === undefined) lastHead = head;
  return head;
}

/**
 * The body of a page, to which entities are written as they are read: members in the order of the
 * service and properties in stored order or, with `$select`, all in the selected order.
 */
export class EntityListWriter {
  readonly #level: MetadataLevel;
  readonly #form: ListForm;
  readonly #page = takePage();
  #at = 0;
  #isEmpty = true;

  constructor(place: EntityPosition, level: MetadataLevel, select: readonly string[] | undefined) {
    this.#level = level;
    this.#form = listForm(place, level, select);
    const { opening } = this.#form;
    this.#page.reserve(HEAD_ROOM_BYTES, opening.length);
    this.#at = append(this.#page.bytes, HEAD_ROOM_BYTES, opening);
  }

  /** In bytes, so far. */
  get length(): number {
    return this.#at - HEAD_ROOM_BYTES;
  }

  add(view: RecordView): void {
    const { head, projection } = this.#form;
    this.#page.reserve(this.#at, 1 + entityBytesMax(head, projection, view));
    const body = this.#page.bytes;
    let at = this.#at;
    if (this.#isEmpty) this.#isEmpty = false;
    else body[at++] = COMMA;
    this.#at = projection
      ? this.#writeProjected(body, at, view, projection)
      : this.#writeWhole(body, at, view);
  }

  #writeProjected(out: Uint8Array, at: number, view: RecordView, projection: Projection): number {
    const { head, sequence } = this.#form;
    const level = this.#level;
    if (!sequence) return writeProjected(out, at, view, level, head, projection);
    if (!projection.beginsWithHead) {
      const control = sequence.repeatControl(view);
      // The whole head, so that later ones have something to repeat.
      if (!control) sequence.write(out, at, view);
      return writeProjected(out, at, view, level, control ?? head, projection);
    }
    const text = sequence.repeat(view);
    const headEnd = text ? append(out, at, text) : sequence.write(out, at, view);
    const end = projection.writeAfterHead(out, headEnd, view);
    out[end] = CLOSING_BRACE;
    return end + 1;
  }

  #writeWhole(out: Uint8Array, at: number, view: RecordView): number {
    const { record, propertiesAt } = view;
    const { sequence } = this.#form;
    const head = sequence?.repeat(view);
    if (head === undefined) {
      const end = (sequence ?? this.#form.head).write(out, at, view);
      return writeProperties(out, end, view, this.#level);
    }
    if (propertiesAt > head.length) {
      return writeProperties(out, append(out, at, head), view, this.#level);
    }
    // Copies the whole record so that its properties follow the head, then the head over the bytes
    // in front of them: a view of the properties alone would take longer than both copies.
    out.set(record, at + head.length - propertiesAt);
    out.set(head, at);
    return closeEntity(out, at + head.length + record.length - propertiesAt, view, this.#level);
  }

  /** The whole body. No entity may be added after this. */
  finish(): JsonBody {
    this.#page.reserve(this.#at, 2);
    const { bytes } = this.#page;
    bytes[this.#at] = 0x5d; // ]
    bytes[this.#at + 1] = CLOSING_BRACE;
    return new JsonBody(this.#page, this.#at + 2);
  }
}

/** The parts shared by lists with the same place, level and `$select`. */
interface ListForm {
  readonly head: EntityHead;
  readonly sequence: EntityHeadTemplate | undefined;
  readonly select: readonly string[] | undefined;
  readonly projection: Projection | undefined;
  /** The text before the first entity. */
  readonly opening: Uint8Array;
}

/** The form of the last list, like `lastHead`. */
let lastList: ListForm | undefined;

function listForm(
  place: EntityPosition,
  level: MetadataLevel,
  select: readonly string[] | undefined,
): ListForm {
  if (lastList?.head.isFor(place, level) && areSame(lastList.select, select)) return lastList;
  const head = new EntityHead(place, level, "");
  const projection = select && new Projection(select, level);
  // At nometadata nothing precedes the selected members. Looking for a head to repeat would make
  // writing such a list 60 % slower. At fullmetadata control information is repeated with keys alone.
  const hasHead = level === "minimalmetadata" || !projection || projection.beginsWithHead;
  lastList = {
    head,
    sequence: hasHead ? new EntityHeadTemplate(head, level) : undefined,
    select,
    projection,
    opening: encoder.encode(`{${contextMember(place, level, "", select)}"value":[`),
  };
  return lastList;
}

function areSame(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.length === b.length && a.every((name, i) => name === b[i]);
}

/** `"odata.metadata":"…",` of one entity or, without a suffix, of a list; "" at nometadata. */
function contextMember(
  { baseUrl, location }: EntityPosition,
  level: MetadataLevel,
  suffix: "/@Element" | "",
  select: readonly string[] | undefined,
): string {
  if (level === "nometadata") return "";
  const selected = select === undefined ? "" : `&$select=${select.join(",")}`;
  const context = `${baseUrl}/$metadata#${location.name}${suffix}${selected}`;
  return `"odata.metadata":${encodeJsonString(context)},`;
}

function entityBytesMax(
  head: EntityHead,
  projection: Projection | undefined,
  view: RecordView,
): number {
  return head.bytesMax(view) + view.record.length + (projection ? projection.bytesMax : 0);
}

/** @param control the control information, or the head that writes it */
function writeProjected(
  out: Uint8Array,
  at: number,
  view: RecordView,
  level: MetadataLevel,
  control: EntityHead | Uint8Array,
  projection: Projection,
): number {
  const membersAt =
    control instanceof EntityHead ? control.writeControl(out, at, view) : append(out, at, control);
  const end = projection.write(out, membersAt, view);
  if (level === "nometadata") out[at] = OPENING_BRACE;
  out[end] = CLOSING_BRACE;
  return end + 1;
}

function writeProperties(
  out: Uint8Array,
  at: number,
  view: RecordView,
  level: MetadataLevel,
): number {
  const { record, propertiesAt } = view;
  return closeEntity(out, copyBytes(out, at, record, propertiesAt, record.length), view, level);
}

/** Ends an entity whose properties, as they are stored, end at `end`. */
function closeEntity(out: Uint8Array, end: number, view: RecordView, level: MetadataLevel): number {
  const last = level === "nometadata" && view.annotated ? removeAnnotations(out, end, view) : end;
  out[last] = CLOSING_BRACE;
  return last + 1;
}

/**
 * Moves the properties up over their annotations, in runs from one annotated property to the next. Moving bytes
 * inside `out` takes no view, and making a view of the record for each run took longer than copying all of it.
 */
function removeAnnotations(out: Uint8Array, end: number, view: RecordView): number {
  const { count } = view;
  const shift = end - view.record.length;
  let next = shift + view.propertiesAt;
  let runStart = next;
  let start = next;
  for (let index = 0; index < count; index++) {
    const form = view.form(index);
    if (isAnnotated(form)) {
      if (runStart !== next) moveBytes(out, next, runStart, start);
      next += start - runStart;
      runStart = start + bareOffset(form, view.nameBytes(index));
    }
    start = shift + view.endOf(index);
  }
  moveBytes(out, next, runStart, end);
  return next + end - runStart;
}

/** A loop takes 2 ns a byte, the native move 60 ns to call. */
function moveBytes(out: Uint8Array, to: number, start: number, end: number): void {
  if (end - start > MOVE_LOOP_BYTES_MAX) out.copyWithin(to, start, end);
  else for (let from = start, next = to; from < end; ) out[next++] = out[from++]!;
}

const MOVE_LOOP_BYTES_MAX = 32;

const view = new RecordView();
const encoder = new TextEncoder();

const COMMA = 0x2c;
const CLOSING_BRACE = 0x7d;
