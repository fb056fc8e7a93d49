import { ServiceError } from "@rowhouse/protocol/errors";
import { parseEntitySelect } from "@rowhouse/protocol/query-options";
import { permitsKey } from "../auth/authorize.ts";
import { whenReady } from "../awaitable.ts";
import { recordEtag } from "./entity-record.ts";
import { entityJson } from "./entity-writer.ts";
import { contentTypeOf, type MetadataLevel, negotiateLevel } from "./negotiate.ts";
import { ODATA_HEADERS, type TableOperation } from "./table-operation.ts";

interface GetEntityInput {
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly level: MetadataLevel;
  readonly select: readonly string[] | undefined;
}

interface GetEntityOutput extends GetEntityInput {
  readonly record: Uint8Array;
}

/** Get Entity, the point query. Fails with TableNotFound or ResourceNotFound (404). */
export const getEntity: TableOperation<GetEntityInput, GetEntityOutput> = {
  name: "QueryEntity",
  route: { method: "GET", resource: "entity" },
  access: { resourceType: "o", accountSas: ["r"], serviceSas: ["r"], bearer: "read" },

  decode(request) {
    const { partitionKey = "", rowKey = "" } = request.location;
    const level = negotiateLevel(request);
    const select = request.query.raw === "" ? undefined : parseEntitySelect(request.query.pairs);
    // A key outside the token's range is as absent as any other key its holder may not see.
    if (!permitsKey(request.identity, partitionKey, rowKey))
      throw new ServiceError("ResourceNotFound");
    return { partitionKey, rowKey, level, select };
  },

  run({ entities }, input, { account, location }) {
    const found = entities.get(account.name, location.name, input.partitionKey, input.rowKey);
    return whenReady(found, (record) => {
      if (!record) throw new ServiceError("ResourceNotFound");
      return { ...input, record };
    });
  },

  encode({ record, level, select }, request) {
    return {
      status: 200,
      headers: [...ODATA_HEADERS, "Content-Type", contentTypeOf(level), "ETag", recordEtag(record)],
      body: entityJson(record, request, level, select),
    };
  },
};
