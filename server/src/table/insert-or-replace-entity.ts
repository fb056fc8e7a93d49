import {
  decodeAddressedWrite,
  type EntityWriteOperation,
  encodeUpdated,
  runEntityWrite,
} from "./entity-write.ts";

/** Insert Or Replace Entity: creates the entity or replaces it, whatever its ETag. */
export const insertOrReplaceEntity: EntityWriteOperation = {
  name: "InsertOrReplaceEntity",
  route: { method: "PUT", resource: "entity", ifMatch: "absent" },
  access: { resourceType: "o", accountSas: ["au"], serviceSas: ["au"], bearer: "write" },
  body: "buffer",
  decode: (request) => decodeAddressedWrite(request, "replace"),
  run: runEntityWrite,
  encode: encodeUpdated,
};
