/**
 * The property types of the Table service. The order defines their codes in stored entities
 * (`docs/internals/storage-format.md`): append only, never reorder.
 */
export const EDM_TYPES = [
  "Edm.String",
  "Edm.Int32",
  "Edm.Int64",
  "Edm.Double",
  "Edm.Boolean",
  "Edm.DateTime",
  "Edm.Guid",
  "Edm.Binary",
] as const;

export type EdmType = (typeof EDM_TYPES)[number];

/**
 * The form of a property in JSON: the index of its type in `EDM_TYPES`, or `SPECIAL_DOUBLE` for an
 * Edm.Double that is not a JSON number. Also its code in stored entities.
 */
export type EdmForm = number;

export const STRING = 0;
export const INT32 = 1;
export const INT64 = 2;
export const DOUBLE = 3;
export const BOOLEAN = 4;
export const DATE_TIME = 5;
export const GUID = 6;
export const BINARY = 7;
/** NaN, Infinity or -Infinity, written as a string. */
export const SPECIAL_DOUBLE = 8;
export const FORM_COUNT = 9;

export function typeOfForm(form: EdmForm): EdmType {
  return EDM_TYPES[form === SPECIAL_DOUBLE ? DOUBLE : form]!;
}

/** Whether JSON alone does not show the type, so that `"x@odata.type":"Edm.…"` must. */
export function isAnnotated(form: EdmForm): boolean {
  return form === INT64 || form >= DATE_TIME;
}
