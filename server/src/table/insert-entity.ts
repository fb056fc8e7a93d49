import { recordEtag } from "./entity-record.ts";
import {
  decodeInsert,
  type EntityWriteOperation,
  entityUrl,
  runEntityWrite,
} from "./entity-write.ts";
import { entityJson } from "./entity-writer.ts";
import { contentTypeOf, negotiateLevel } from "./negotiate.ts";
import { preferenceOf } from "./prefer.ts";
import { recordKeys } from "./record-view.ts";
import { ODATA_HEADERS } from "./table-operation.ts";

/** Insert Entity. Fails with EntityAlreadyExists (409) when the two keys are taken. */
export const insertEntity: EntityWriteOperation = {
  name: "InsertEntity",
  route: { method: "POST", resource: "entities" },
  access: { resourceType: "o", accountSas: ["a"], serviceSas: ["a"], bearer: "write" },
  body: "buffer",

  decode(request) {
    // Before anything is written: an answer that cannot be given must not be found out afterwards.
    negotiateLevel(request);
    return decodeInsert(request);
  },

  run: runEntityWrite,

  encode({ record }, request) {
    const { partitionKey, rowKey } = recordKeys(record!);
    const location = entityUrl(request, request.location.name, partitionKey, rowKey);
    const preference = preferenceOf(request);
    const headers = [...ODATA_HEADERS, "ETag", recordEtag(record!), "Location", location];
    if (preference) headers.push("Preference-Applied", preference);
    if (preference === "return-no-content") {
      return { status: 204, headers: [...headers, "DataServiceId", location] };
    }
    const level = negotiateLevel(request);
    headers.push("Content-Type", contentTypeOf(level));
    return { status: 201, headers, body: entityJson(record!, request, level) };
  },
};
