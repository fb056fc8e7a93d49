import type { BackgroundWork } from "../catalog/background-loop.ts";
import { Catalog } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import { Reaper } from "../catalog/reaper.ts";
import { ServicePropertiesStore } from "../catalog/service-properties-store.ts";
import type { Clock } from "../clock.ts";
import type { Engine } from "../engine/engine.ts";
import { partitionPrefixRange } from "../engine/key-codec.ts";
import type { Gate } from "../http/gate.ts";
import type { Service } from "../http/service.ts";
import { type Insight, NO_INSIGHT } from "../insight/insight.ts";
import { TABLE_DOCUMENTS } from "../xml/document-rules.ts";
import { EntityStore, type TableValue } from "./entity-store.ts";
import { tablePrefix } from "./table-keys.ts";
import type { TableContext } from "./table-operation.ts";
import { tableService } from "./table-service.ts";

export interface TableServiceOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly accountIds: ReadonlyMap<string, number>;
  readonly onError: (error: unknown) => void;
  /** Default: nobody watches. */
  readonly insight?: Insight | undefined;
  /** What each operation of a batch passes. Default: nothing. */
  readonly gate?: Gate | undefined;
}

export interface OpenTableService {
  readonly service: Service<TableContext>;
  /** Not begun yet. */
  readonly background: readonly BackgroundWork[];
}

/** Puts the Table service together on an engine. */
export function openTableService(options: TableServiceOptions): OpenTableService {
  const { engine, clock, accountIds, onError, insight = NO_INSIGHT, gate } = options;
  const space = KEY_SPACES.tableCatalog;
  const catalog = new Catalog<TableValue>(engine, space, accountIds, clock);
  const reaper = new Reaper({
    engine,
    catalog,
    contentsOf: (accountId, tableId) => partitionPrefixRange(tablePrefix(accountId, tableId)),
    onError,
  });
  const properties = new ServicePropertiesStore({
    engine,
    clock,
    space,
    accountIds,
    rules: TABLE_DOCUMENTS,
  });
  const entities = new EntityStore(engine, catalog, clock);
  const service = tableService({
    engine,
    clock,
    catalog,
    entities,
    properties,
    reaper,
    insight,
    gate,
  });
  return { service, background: [reaper] };
}
