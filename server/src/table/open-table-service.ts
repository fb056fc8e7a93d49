import type { BackgroundWork } from "../catalog/background-loop.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import { type Foundation, openCatalog } from "../catalog/open-catalog.ts";
import { partitionPrefixRange } from "../engine/key-codec.ts";
import type { Service } from "../http/service.ts";
import { type Insight, NO_INSIGHT } from "../insight/insight.ts";
import type { Gate } from "../wire/gate.ts";
import { TABLE_DOCUMENTS } from "../xml/document-rules.ts";
import { EntityStore } from "./entity-store.ts";
import { openIndexes } from "./indexes/open-indexes.ts";
import { tablePrefix } from "./table-keys.ts";
import type { TableContext } from "./table-operation.ts";
import { tableService } from "./table-service.ts";
import type { TableValue } from "./table-value.ts";

export interface TableServiceOptions extends Foundation {
  /** Default: none. */
  readonly insight?: Insight | undefined;
  /** The gate for each operation inside a batch. Default: none. */
  readonly gate?: Gate | undefined;
  /** See `TableContext`. */
  readonly syncedAt?: TableContext["syncedAt"];
}

export interface OpenTableService {
  readonly service: Service<TableContext>;
  /** Not started yet. */
  readonly background: readonly BackgroundWork[];
}

/** Assembles the Table service on an engine. */
export function openTableService(options: TableServiceOptions): OpenTableService {
  const { engine, clock, insight = NO_INSIGHT, gate, syncedAt } = options;
  const { catalog, reaper, properties } = openCatalog<TableValue>(options, {
    space: KEY_SPACES.tableCatalog,
    rules: TABLE_DOCUMENTS,
    contentsOf: (accountId, tableId) => partitionPrefixRange(tablePrefix(accountId, tableId)),
  });
  const entities = new EntityStore(engine, catalog, clock);
  const indexes = openIndexes(options, catalog, reaper);
  const store = { engine, clock, catalog, entities, indexes, properties, reaper };
  const context = { ...store, insight, gate, syncedAt };
  return { service: tableService(context), background: [reaper, indexes.builder] };
}
