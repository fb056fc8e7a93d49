import { encodeContinuation } from "@rowhouse/protocol/continuation";
import { LIMITS } from "@rowhouse/protocol/limits";
import {
  type EntityContinuation,
  type EntityQueryOptions,
  parseEntityQueryOptions,
} from "@rowhouse/protocol/query-options";
import { type Awaitable, whenReady } from "../awaitable.ts";
import { costHeaders, keysRead, type QueryCost, type QueryFacts } from "../insight/insight.ts";
import { explain } from "../query/explain.ts";
import { planQuery, resumePlan } from "../query/planner.ts";
import { compilePredicate } from "../query/predicate.ts";
import type { SasKeyRange } from "../wire/identity.ts";
import type { EntityPosition } from "./entity-head.ts";
import { EntityListWriter } from "./entity-writer.ts";
import type { JsonBody } from "./json-body.ts";
import { contentTypeOf, type MetadataLevel, negotiateLevel } from "./negotiate.ts";
import { PageReader } from "./page-reader.ts";
import {
  ODATA_HEADERS,
  type TableAddress,
  type TableOperation,
  tableAddressOf,
} from "./table-operation.ts";

interface QueryEntitiesInput extends TableAddress {
  readonly options: EntityQueryOptions;
  readonly level: MetadataLevel;
  readonly bounds: SasKeyRange | undefined;
  /** What the heads of the returned entities depend on. */
  readonly position: EntityPosition;
  readonly filterText: string | undefined;
  readonly arrivedAt: number;
  readonly client: string;
}

interface QueryEntitiesOutput {
  readonly body: JsonBody;
  readonly next: EntityContinuation | undefined;
  readonly level: MetadataLevel;
  readonly planText: string;
  readonly cost: QueryCost;
}

/** Query Entities: a page of matching entities, in key order. Fails with TableNotFound (404). */
export const queryEntities: TableOperation<QueryEntitiesInput, QueryEntitiesOutput> = {
  name: "QueryEntities",
  route: { method: "GET", resource: "entities" },
  access: { resourceType: "o", accountSas: ["r"], serviceSas: ["r"], bearer: "read" },

  decode(request) {
    const { arrivedAt, identity, query, remoteAddress } = request;
    return {
      ...tableAddressOf(request),
      options: parseEntityQueryOptions(query.pairs),
      level: negotiateLevel(request),
      bounds: identity.kind === "service-sas" ? identity.keyRange : undefined,
      position: request,
      filterText: query.get("$filter"),
      arrivedAt,
      client: remoteAddress,
    };
  },

  run(context, input): Awaitable<QueryEntitiesOutput> {
    const { engine, clock, entities, insight } = context;
    const { account, table, arrivedAt, bounds, level } = input;
    const { filter, from, select, top = LIMITS.pageEntitiesMax } = input.options;
    const whole = planQuery(filter, bounds);
    const plan = from ? resumePlan(whole, from) : whole;
    const planText = explain(plan);
    const { partitionKey, rowKey } = keysRead(plan);
    const began = performance.now();
    return whenReady(entities.openTable(account, table), (opened) => {
      const facts: QueryFacts = {
        at: arrivedAt,
        account,
        table: opened.named.name,
        plan,
        class: whole.class,
        partitionKey,
        rowKey,
        planText,
        filter: input.filterText,
        projected: select !== undefined,
        continued: from !== undefined,
        client: input.client,
        partition: undefined,
      };
      insight.admitQuery(facts);
      const writer = new EntityListWriter(input.position, level, select);
      const reader = new PageReader(engine, clock, {
        prefix: opened.prefix,
        plan: top === 0 ? { ...plan, reads: [] } : plan,
        predicate: plan.residual && compilePredicate(plan.residual),
        entitiesMax: top,
        bytesMax: LIMITS.pageBytesMax,
        deadline: arrivedAt + LIMITS.pageTimeMs,
        take: (view) => writer.add(view),
        isFull: () => writer.length >= LIMITS.pageJsonBytesMax,
      });
      return whenReady(reader.read(), ({ next, work }) => {
        const cost: QueryCost = {
          entitiesRead: work.entitiesRead,
          entitiesReturned: work.entitiesReturned,
          bytesRead: work.bytesRead,
          engineMicros: Math.round((performance.now() - began) * 1000),
        };
        const answer = () => {
          insight.queried(facts, cost);
          return { next, level, planText, cost, body: writer.finish() };
        };
        // If another process freed the table while the page was read, the page must not pass for
        // the last one. With a continuation, the next request notices; a single entity that was
        // found is complete.
        const isPoint = plan.reads.length === 1 && plan.reads[0]?.kind === "point";
        if (next || (isPoint && work.entitiesRead === 1)) return answer();
        return whenReady(entities.checkStillThere(account, table, opened), answer);
      });
    });
  },

  encode({ body, next, level, planText, cost }) {
    const headers = [...ODATA_HEADERS, "Content-Type", contentTypeOf(level)];
    headers.push(...costHeaders(planText, cost));
    if (next) {
      headers.push("x-ms-continuation-NextPartitionKey", encodeContinuation(next.partitionKey));
      // Clients drop an empty row key from the next request, so it is better not sent.
      if (next.rowKey) {
        headers.push("x-ms-continuation-NextRowKey", encodeContinuation(next.rowKey));
      }
    }
    return { status: 200, headers, body };
  },
};
