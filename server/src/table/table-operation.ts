import type { Catalog } from "../catalog/catalog.ts";
import type { Reaper } from "../catalog/reaper.ts";
import type { ServicePropertiesStore } from "../catalog/service-properties-store.ts";
import type { Clock } from "../clock.ts";
import type { Engine } from "../engine/engine.ts";
import type { Gate } from "../http/gate.ts";
import type { Insight } from "../insight/insight.ts";
import type { Operation } from "../operation.ts";
import type { EntityStore, TableValue } from "./entity-store.ts";
import type { TableResource } from "./locate.ts";

/** What table operations work with. */
export interface TableContext {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly catalog: Catalog<TableValue>;
  readonly entities: EntityStore;
  readonly properties: ServicePropertiesStore;
  readonly reaper: Reaper<TableValue>;
  readonly insight: Insight;
  /** What each operation inside a batch passes; all others passed it on their way here. */
  readonly gate: Gate | undefined;
}

export type TableOperation<Input, Output> = Operation<TableContext, Input, Output, TableResource>;

/** Headers of every answer to an OData request, with a body or without. */
export const ODATA_HEADERS: readonly string[] = [
  "Cache-Control",
  "no-cache",
  "X-Content-Type-Options",
  "nosniff",
];
