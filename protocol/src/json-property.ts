import { BINARY, EDM_TYPES, type EdmForm, FORM_COUNT, isAnnotated, typeOfForm } from "./edm.ts";

/**
 * One property of an entity in JSON, with the comma before it: `,"name":value`, or, if JSON alone
 * does not show the type, `,"name@odata.type":"Edm.Int64","name":"39"`. Stored entities hold their
 * properties in this form, so a response is a copy of them.
 */
export interface JsonProperty {
  readonly form: EdmForm;
  /** Length of the name. */
  readonly nameBytes: number;
  /** Where this property ends in the text of all properties; it begins where the previous one ends. */
  readonly end: number;
}

/** Offset of the value, counted from the comma. */
export function valueOffset(form: EdmForm, nameBytes: number): number {
  return bareOffset(form, nameBytes) + nameBytes + ',"":'.length;
}

/** Offset of `,"name":value` without its annotation, counted from the first comma. */
export function bareOffset(form: EdmForm, nameBytes: number): number {
  const annotation = ANNOTATION_BYTES[form]!;
  return annotation === 0 ? 0 : annotation + nameBytes;
}

/** Offset of the name, counted from the comma. */
export const NAME_OFFSET = ',"'.length;

/** Writes everything before the value, with the name from `bytes[start, end)`; returns where it ends. */
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

/** The form named by the text `bytes[start, end)`, such as `Edm.Int64`; -1 if there is no such type. */
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
/** The text after `,"name`, up to the comma of the property proper. */
const ANNOTATIONS = Array.from({ length: FORM_COUNT }, (_, form) =>
  encoder.encode(isAnnotated(form) ? `@odata.type":"${typeOfForm(form)}"` : ""),
);
/** Length of `,"@odata.type":"Edm.…"` for each form; 0 for forms without annotation. */
const ANNOTATION_BYTES = Uint8Array.from(ANNOTATIONS, ({ length }) =>
  length === 0 ? 0 : length + 2,
);
