import type { Awaitable } from "../awaitable.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Reaper } from "../catalog/reaper.ts";
import type { ServicePropertiesStore } from "../catalog/service-properties-store.ts";
import type { Clock } from "../clock.ts";
import type { Engine } from "../engine/engine.ts";
import type { Insight } from "../insight/insight.ts";
import type { Gate } from "../wire/gate.ts";
import type { Operation, WireRequest } from "../wire/operation.ts";
import type { EntityStore } from "./entity-store.ts";
import type { Indexes } from "./indexes/open-indexes.ts";
import type { TableResource } from "./locate.ts";
import type { TableValue } from "./table-value.ts";

/** The dependencies of table operations. */
export interface TableContext {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly catalog: Catalog<TableValue>;
  readonly entities: EntityStore;
  readonly indexes: Indexes;
  readonly properties: ServicePropertiesStore;
  readonly reaper: Reaper<TableValue>;
  readonly insight: Insight;
  /** For operations inside a batch; all others have passed the gate before they run. */
  readonly gate: Gate | undefined;
  /** Of a secondary endpoint over an engine of its own: until when it has everything, in milliseconds since 1970. */
  readonly syncedAt?: (() => Awaitable<number | undefined>) | undefined;
}

/** What operations on tables and entities read of a request, and all that a part of a batch has. */
export type TableRequest = Pick<
  WireRequest,
  | "account"
  | "arrivedAt"
  | "baseUrl"
  | "body"
  | "header"
  | "identity"
  | "location"
  | "method"
  | "query"
  | "rawHeaders"
  | "remoteAddress"
  | "verb"
  | "version"
>;

export type TableOperation<Input, Output> = Operation<
  TableContext,
  Input,
  Output,
  TableResource,
  TableRequest
>;

/** A table as a request names it: the case of its name need not be that of its creation. */
export interface TableAddress {
  readonly account: string;
  readonly table: string;
}

export function tableAddressOf({ account, location }: TableRequest): TableAddress {
  return { account: account.name, table: location.name };
}

/** Headers of every response to an OData request, with or without a body. */
export const ODATA_HEADERS: readonly string[] = [
  "Cache-Control",
  "no-cache",
  "X-Content-Type-Options",
  "nosniff",
];
