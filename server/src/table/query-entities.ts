import { encodeContinuation } from "@rowhouse/protocol/continuation";
import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import {
  type EntityContinuation,
  type EntityQueryOptions,
  parseEntityQueryOptions,
} from "@rowhouse/protocol/query-options";
import { type Awaitable, whenReady } from "../awaitable.ts";
import { timeInTurn } from "../engine/time-slice.ts";
import { costHeaders, keysRead, type QueryCost, type QueryFacts } from "../insight/insight.ts";
import { explain } from "../query/explain.ts";
import { explainIndexes, type IndexPlan, planIndexes } from "../query/indexes/index-planner.ts";
import type { Plan } from "../query/plan.ts";
import { planQuery, resumePlan } from "../query/planner.ts";
import { compilePredicate } from "../query/predicate.ts";
import type { SasKeyRange } from "../wire/identity.ts";
import type { WireRequest } from "../wire/operation.ts";
import type { EntityPosition } from "./entity-head.ts";
import type { OpenTable } from "./entity-store.ts";
import { EntityListWriter } from "./entity-writer.ts";
import { IndexSource } from "./indexes/index-source.ts";
import type { JsonBody } from "./json-body.ts";
import { contentTypeOf, type MetadataLevel, negotiateLevel } from "./negotiate.ts";
import { PageReader } from "./page-reader.ts";
import {
  ODATA_HEADERS,
  type TableAddress,
  type TableContext,
  type TableOperation,
} from "./table-operation.ts";

interface QueryEntitiesInput extends TableAddress {
  readonly options: EntityQueryOptions;
  readonly level: MetadataLevel;
  readonly bounds: SasKeyRange | undefined;
  /** What the heads of the returned entities depend on. */
  readonly position: EntityPosition;
  readonly filterText: string | undefined;
  readonly readMax: number | undefined;
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
    const { account, arrivedAt, identity, location, query, remoteAddress } = request;
    return {
      account: account.name,
      table: location.name,
      options: parseEntityQueryOptions(query.pairs),
      level: negotiateLevel(request),
      bounds: identity.kind === "service-sas" ? identity.keyRange : undefined,
      position: request,
      filterText: query.get("$filter"),
      readMax: readMaxOf(request),
      arrivedAt,
      client: remoteAddress,
    };
  },

  run(context, input): Awaitable<QueryEntitiesOutput> {
    const { entities, insight } = context;
    const { account, table, arrivedAt, bounds } = input;
    const { filter, from, select, top } = input.options;
    const whole = planQuery(filter, bounds);
    const plan = from ? resumePlan(whole, from) : whole;
    const { partitionKey, rowKey } = keysRead(plan);
    return whenReady(entities.openToRead(account, table), ({ opened, isConfirmed }) => {
      const { indexed, planText } = choosePlan(top === 0 ? undefined : opened, plan);
      const facts: QueryFacts = {
        at: arrivedAt,
        account,
        table: opened.named.name,
        plan,
        class: indexed?.class ?? whole.class,
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
      const read = (isThere: boolean) =>
        readPage(context, input, { opened, isConfirmed: isThere, plan, indexed, facts });
      // The table may go while the page waits.
      return timeInTurn()?.then(() => read(false)) ?? read(isConfirmed);
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

/** Ours: about how many entities a page may read before it ends, with a continuation if anything is left. */
const READ_MAX = "x-rowhouse-read-max";

/** @throws ServiceError InvalidHeaderValue */
function readMaxOf(request: Pick<WireRequest, "header">): number | undefined {
  const text = request.header(READ_MAX);
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,8}$/.test(text)) {
    throw new ServiceError("InvalidHeaderValue", {
      details: [
        ["HeaderName", READ_MAX],
        ["HeaderValue", text],
      ],
    });
  }
  return Number(text);
}

/** What one page is read by. */
interface PagePlan {
  readonly opened: OpenTable;
  /** Whether the table was there when the read began; otherwise that is still to be found out. */
  readonly isConfirmed: boolean;
  readonly plan: Plan;
  readonly indexed: IndexPlan | undefined;
  readonly facts: QueryFacts;
}

/** The plan through the indexes of a table, if they help, and the text of the plan. */
function choosePlan(
  opened: OpenTable | undefined,
  plan: Plan,
): { readonly indexed: IndexPlan | undefined; readonly planText: string } {
  const scanText = explain(plan);
  const all = opened?.indexes ?? [];
  if (all.length === 0) return { indexed: undefined, planText: scanText };
  const ready = all.flatMap(({ index }) => (index.state === "ready" ? [index] : []));
  const indexed = planIndexes(plan, ready);
  if (indexed) return { indexed, planText: explainIndexes(indexed, scanText) };
  const [unready] =
    planIndexes(
      plan,
      all.map(({ index }) => index),
    )?.branches.flatMap(({ index }) => all.filter((each) => each.index === index)) ?? [];
  const planText = unready
    ? `${scanText} (index ${unready.index.name} not used: it is ${unready.index.state})`
    : scanText;
  return { indexed: undefined, planText };
}

function readPage(
  context: TableContext,
  input: QueryEntitiesInput,
  { opened, isConfirmed, plan, indexed, facts }: PagePlan,
): Awaitable<QueryEntitiesOutput> {
  const { engine, clock, entities, insight } = context;
  const { account, table, arrivedAt, level } = input;
  const { select, top = LIMITS.pageEntitiesMax } = input.options;
  const began = performance.now();
  const writer = new EntityListWriter(input.position, level, select);
  const predicate = plan.residual && compilePredicate(plan.residual);
  const { prefix } = opened;
  const bytesMax = LIMITS.pageBytesMax;
  const deadline = arrivedAt + LIMITS.pageTimeMs;
  const source =
    indexed &&
    predicate &&
    new IndexSource({
      prefix,
      entitiesMax: top,
      bytesMax,
      deadline,
      engine,
      clock,
      predicate,
      plan: indexed,
      indexes: opened.indexes,
    });
  // Written out: an object that begins with a spread costs a page of 100 a tenth of its time.
  const reader = new PageReader(engine, clock, {
    prefix,
    entitiesMax: top,
    bytesMax,
    deadline,
    readMax: input.readMax,
    plan: top === 0 ? { ...plan, reads: [] } : plan,
    predicate,
    source,
    take: (view) => writer.add(view),
    isFull: () => writer.length >= LIMITS.pageJsonBytesMax,
  });
  return whenReady(reader.read(), ({ next, work }) => {
    const cost: QueryCost = {
      entitiesRead: work.entitiesRead,
      entitiesReturned: work.entitiesReturned,
      bytesRead: work.bytesRead,
      indexEntriesRead: source?.entriesRead,
      engineMicros: Math.round((performance.now() - began) * 1000),
    };
    const planText = source?.wasGivenUp
      ? `${explain(plan)} (index ${indexed?.branches[0]?.index.name} not used: a scan is cheaper)`
      : facts.planText;
    const answer = () => {
      insight.queried(facts, cost);
      return { next, level, planText, cost, body: writer.finish() };
    };
    if (source || !isConfirmed) {
      // An index that was dropped meanwhile may have lost entries before they were read, and a table all it had.
      return whenReady(entities.isUnchanged(account, table, opened), (isUnchanged) => {
        if (isUnchanged) return answer();
        return whenReady(entities.openTable(account, table), (again) => {
          const chosen = choosePlan(again, plan);
          return readPage(context, input, {
            opened: again,
            isConfirmed: true,
            plan,
            indexed: chosen.indexed,
            facts: { ...facts, planText: chosen.planText },
          });
        });
      });
    }
    // If another process freed the table while the page was read, the page must not pass for
    // the last one. With a continuation, the next request notices; a single entity that was
    // found is complete.
    const isPoint = plan.reads.length === 1 && plan.reads[0]?.kind === "point";
    if (next || (isPoint && work.entitiesRead === 1)) return answer();
    return whenReady(entities.checkStillThere(account, table, opened), answer);
  });
}
