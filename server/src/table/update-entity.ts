import {
  decodeAddressedWrite,
  type EntityWriteOperation,
  encodeUpdated,
  runEntityWrite,
} from "./entity-write.ts";

/** Update Entity: replaces an entity that must exist (404) and match its ETag (412). */
export const updateEntity: EntityWriteOperation = {
  name: "UpdateEntity",
  route: { method: "PUT", resource: "entity", ifMatch: "present" },
  access: { resourceType: "o", accountSas: ["u"], serviceSas: ["u"], bearer: "write" },
  body: "buffer",
  decode: (request) => decodeAddressedWrite(request, "replace"),
  run: runEntityWrite,
  encode: encodeUpdated,
};
