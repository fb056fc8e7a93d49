import { entityPath } from "@rowhouse/protocol/entity-url";
import { recordEtag } from "./entity-record.ts";
import { decodeInsert, type EntityWriteOperation, runEntityWrite } from "./entity-write.ts";
import { entityBody } from "./entity-writer.ts";
import type { JsonBody } from "./json-body.ts";
import type { StoredEntity } from "./mutation.ts";
import { contentTypeOf, negotiateLevel } from "./negotiate.ts";
import { type Preference, preferenceOf } from "./prefer.ts";
import { ODATA_HEADERS, type TableRequest } from "./table-operation.ts";

/** Insert Entity. Fails with EntityAlreadyExists (409) if an entity has these keys. */
export const insertEntity: EntityWriteOperation = {
  name: "InsertEntity",
  route: { method: "POST", resource: "entities" },
  access: { resourceType: "o", accountSas: ["a"], serviceSas: ["a"], bearer: "write" },
  body: "buffer",

  decode(request) {
    // Fails before the write if the response could not be written in the requested format.
    negotiateLevel(request);
    return decodeInsert(request);
  },

  run: runEntityWrite,

  encode(stored, request) {
    const { etag, location, preference, content } = describeInserted(stored, request);
    const headers = [...ODATA_HEADERS, "ETag", etag, "Location", location];
    if (preference) headers.push("Preference-Applied", preference);
    if (!content) return { status: 204, headers: [...headers, "DataServiceId", location] };
    return { status: 201, headers: [...headers, "Content-Type", content.type], body: content.body };
  },
};

/** The content of the response to an insert, alone or in a transaction. */
export interface InsertedEntity {
  readonly etag: string;
  readonly location: string;
  readonly preference: Preference | undefined;
  /** Undefined if the client prefers no content. */
  readonly content: { readonly type: string; readonly body: JsonBody } | undefined;
}

export function describeInserted(
  { partitionKey, rowKey, record }: StoredEntity,
  request: TableRequest,
): InsertedEntity {
  const etag = recordEtag(record!);
  const location = `${request.baseUrl}/${entityPath(request.location.name, partitionKey, rowKey)}`;
  const preference = preferenceOf(request);
  if (preference === "return-no-content") {
    return { etag, location, preference, content: undefined };
  }
  const level = negotiateLevel(request);
  const content = { type: contentTypeOf(level), body: entityBody(record!, request, level) };
  return { etag, location, preference, content };
}
