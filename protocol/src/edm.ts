/**
 * The property types of the Table service, in the order of their codes in stored entities
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
