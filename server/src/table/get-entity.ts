import { ServiceError } from "@rowhouse/protocol/errors";
import { parseEntitySelect } from "@rowhouse/protocol/query-options";
import { permitsKey } from "../auth/authorize.ts";
import { whenReady } from "../awaitable.ts";
import { costHeaders, type QueryCost, type QueryFacts } from "../insight/insight.ts";
import { explainPoint } from "../query/explain.ts";
import type { Plan } from "../query/plan.ts";
import { recordEtag } from "./entity-record.ts";
import { entityBody } from "./entity-writer.ts";
import { contentTypeOf, type MetadataLevel, negotiateLevel } from "./negotiate.ts";
import { ODATA_HEADERS, type TableOperation } from "./table-operation.ts";

interface GetEntityInput {
  readonly account: string;
  readonly table: string;
  readonly partitionKey: string;
  readonly rowKey: string;
  readonly level: MetadataLevel;
  readonly select: readonly string[] | undefined;
  /** For insight: when and from where the request came. */
  readonly at: number;
  readonly client: string;
}

interface GetEntityOutput {
  readonly input: GetEntityInput;
  readonly record: Uint8Array;
  readonly planText: string;
  readonly cost: QueryCost;
}

/** Get Entity, the point query. Fails with TableNotFound or ResourceNotFound (404). */
export const getEntity: TableOperation<GetEntityInput, GetEntityOutput> = {
  name: "QueryEntity",
  route: { method: "GET", resource: "entity" },
  access: { resourceType: "o", accountSas: ["r"], serviceSas: ["r"], bearer: "read" },

  decode(request) {
    const { account, arrivedAt, location, remoteAddress } = request;
    const { name: table, partitionKey = "", rowKey = "" } = location;
    const level = negotiateLevel(request);
    const select = request.query.raw === "" ? undefined : parseEntitySelect(request.query.pairs);
    // A key outside the token's range looks like a missing one.
    if (!permitsKey(request.identity, partitionKey, rowKey))
      throw new ServiceError("ResourceNotFound");
    return {
      account: account.name,
      table,
      partitionKey,
      rowKey,
      level,
      select,
      at: arrivedAt,
      client: remoteAddress,
    };
  },

  run({ entities, insight }, input) {
    const { account, table, partitionKey, rowKey, select, at, client } = input;
    return whenReady(entities.createdName(account, table), (createdName) => {
      if (createdName === undefined) throw new ServiceError("TableNotFound");
      const planText = explainPoint(partitionKey, rowKey);
      const plan: Plan = {
        class: "point query",
        reads: [{ kind: "point", class: "point query", partitionKey, rowKey }],
        residual: undefined,
        rowKeys: undefined,
      };
      const facts: QueryFacts = {
        at,
        account,
        table: createdName,
        plan,
        class: "point query",
        partitionKey,
        rowKey,
        planText,
        filter: undefined,
        projected: select !== undefined,
        continued: false,
        client,
        partition: undefined,
      };
      insight.admitQuery(facts);
      const began = performance.now();
      const reading = entities.get(account, table, partitionKey, rowKey);
      return whenReady(reading, (record) => {
        const found = record ? 1 : 0;
        const cost: QueryCost = {
          entitiesRead: found,
          entitiesReturned: found,
          bytesRead: record?.length ?? 0,
          engineMicros: Math.round((performance.now() - began) * 1000),
        };
        insight.queried(facts, cost);
        if (!record) throw absent(planText, cost);
        return { input, record, planText, cost };
      });
    });
  },

  encode({ input, record, planText, cost }, request) {
    const { level, select } = input;
    const headers = [...ODATA_HEADERS];
    headers.push("Content-Type", contentTypeOf(level), "ETag", recordEtag(record));
    headers.push(...costHeaders(planText, cost));
    return { status: 200, headers, body: entityBody(record, request, level, select) };
  },
};

/** A lookup of a missing entity costs as much and reports its cost too. */
function absent(planText: string, cost: QueryCost): ServiceError {
  const [planName, plan, costName, printedCost] = costHeaders(planText, cost);
  const headers = [
    [planName, plan],
    [costName, printedCost],
  ] as const;
  return new ServiceError("ResourceNotFound", { headers });
}
