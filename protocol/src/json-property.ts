import { BINARY, EDM_TYPES, type EdmForm, FORM_COUNT, isAnnotated, typeOfForm } from "./edm.ts";

/**
 * How one property of an entity stands in JSON, the comma before it included: `,"name":value`, or,
 * where JSON alone would not tell the type, `,"name@odata.type":"Edm.Int64","name":"39"`.
 * Stored entities hold their properties in this form, so that an answer is a copy of them.
 */
export interface JsonProperty {
  readonly form: EdmForm;
  /** Length of the name. */
  readonly nameBytes: number;
  /** Where this property ends in the text of all; it begins where the one before it ends. */
  readonly end: number;
}

/** Where the value begins, counted from the comma. */
export function valueOffset(form: EdmForm, nameBytes: number): number {
  return bareOffset(form, nameBytes) + nameBytes + ',"":'.length;
}

/** Where `,"name":value` without its annotation begins, counted from the comma before that. */
export function bareOffset(form: EdmForm, nameBytes: number): number {
  const annotation = ANNOTATION_BYTES[form]!;
  return annotation === 0 ? 0 : annotation + nameBytes;
}

/** Where the name begins, counted from the comma. */
export const NAME_OFFSET = ',"'.length;

/** Writes everything before the value, the name from `bytes[start, end)`, and answers where it ended. */
export function writePropertyHead(
  out: Uint8Array,
  at: number,
  form: EdmForm,
  bytes: Uint8Array,
  start: number,
  end: number,
): number {
  let next = at;
  if (ANNOTATION_BYTES[form] !== 0) {
    next = writeQuotedName(out, next, bytes, start, end);
    const annotation = ANNOTATIONS[form]!;
    out.set(annotation, next);
    next += annotation.length;
  }
  next = writeQuotedName(out, next, bytes, start, end);
  out[next] = QUOTE;
  out[next + 1] = COLON;
  return next + 2;
}

/** Writes `,"name`. */
function writeQuotedName(
  out: Uint8Array,
  at: number,
  bytes: Uint8Array,
  start: number,
  end: number,
): number {
  out[at] = COMMA;
  out[at + 1] = QUOTE;
  let next = at + 2;
  for (let i = start; i < end; i++) out[next++] = bytes[i]!;
  return next;
}

/** The form that `Edm.…`, the text `bytes[start, end)`, names; -1 when there is no such type. */
export function formNamed(bytes: Uint8Array, start: number, end: number): EdmForm {
  for (let form = 0; form <= BINARY; form++) {
    const name = TYPE_NAMES[form]!;
    if (name.length !== end - start) continue;
    let i = 0;
    while (i < name.length && bytes[start + i] === name[i]) i++;
    if (i === name.length) return form;
  }
  return -1;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;

const encoder = new TextEncoder();
const TYPE_NAMES = EDM_TYPES.map((type) => encoder.encode(type));
/** What follows `,"name`, up to the comma of the property proper. */
const ANNOTATIONS = Array.from({ length: FORM_COUNT }, (_, form) =>
  encoder.encode(isAnnotated(form) ? `@odata.type":"${typeOfForm(form)}"` : ""),
);
/** Length of `,"@odata.type":"Edm.…"` for each form, 0 for those that need none. */
const ANNOTATION_BYTES = Uint8Array.from(ANNOTATIONS, ({ length }) =>
  length === 0 ? 0 : length + 2,
);
