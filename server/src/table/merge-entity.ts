import {
  decodeAddressedWrite,
  type EntityWriteOperation,
  encodeUpdated,
  runEntityWrite,
} from "./entity-write.ts";

/** Merge Entity: merges into an entity that must exist (404) and match its ETag (412). */
export const mergeEntity: EntityWriteOperation = {
  name: "MergeEntity",
  route: { method: "MERGE", resource: "entity", ifMatch: "present" },
  access: { resourceType: "o", accountSas: ["u"], serviceSas: ["u"], bearer: "write" },
  body: "buffer",
  decode: (request) => decodeAddressedWrite(request, "merge"),
  run: runEntityWrite,
  encode: encodeUpdated,
};
