import {
  decodeDelete,
  type EntityWriteOperation,
  encodeUpdated,
  runEntityWrite,
} from "./entity-write.ts";

/** Delete Entity: the entity must exist (404) and match its ETag (412); `If-Match` is required. */
export const deleteEntity: EntityWriteOperation = {
  name: "DeleteEntity",
  route: { method: "DELETE", resource: "entity" },
  access: { resourceType: "o", accountSas: ["d"], serviceSas: ["d"], bearer: "write" },
  decode: decodeDelete,
  run: runEntityWrite,
  encode: encodeUpdated,
};
