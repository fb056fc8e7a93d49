import {
  decodeAddressedWrite,
  type EntityWriteOperation,
  encodeUpdated,
  runEntityWrite,
} from "./entity-write.ts";

/** Insert Or Merge Entity: creates the entity or merges into it; properties not mentioned are kept. */
export const insertOrMergeEntity: EntityWriteOperation = {
  name: "InsertOrMergeEntity",
  route: { method: "MERGE", resource: "entity", ifMatch: "absent" },
  access: { resourceType: "o", accountSas: ["au"], serviceSas: ["au"], bearer: "write" },
  body: "buffer",
  decode: (request) => decodeAddressedWrite(request, "merge"),
  run: runEntityWrite,
  encode: encodeUpdated,
};
