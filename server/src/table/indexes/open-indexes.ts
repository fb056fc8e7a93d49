import type { BackgroundWork } from "../../catalog/background-loop.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import type { Foundation } from "../../catalog/open-catalog.ts";
import type { Reaper } from "../../catalog/reaper.ts";
import type { TableValue } from "../table-value.ts";
import { progressKey, readProgress, type StoredProgress } from "./index-build.ts";
import { IndexBuilder } from "./index-builder.ts";
import { IndexCatalog, type KeptIndex } from "./index-catalog.ts";
import { IndexCheck } from "./index-check.ts";

/** All that is done with indexes besides reading and writing through them. */
export interface Indexes {
  readonly catalog: IndexCatalog;
  /** Not started yet. */
  readonly builder: IndexBuilder & BackgroundWork;
  readonly check: IndexCheck;
  /** How far the building of an index has come; undefined if none is on its way. */
  readonly progressOf: (account: string, kept: KeptIndex) => Promise<StoredProgress | undefined>;
}

export function openIndexes(
  { engine, clock, onError }: Pick<Foundation, "engine" | "clock" | "onError">,
  tables: Catalog<TableValue>,
  reaper: Reaper<TableValue>,
): Indexes {
  const catalog = new IndexCatalog({ engine, catalog: tables, reaper });
  const parts = { engine, catalog: tables, indexes: catalog, clock };
  return {
    catalog,
    builder: new IndexBuilder({ ...parts, onError }),
    check: new IndexCheck(parts),
    progressOf: async (account, { index }) =>
      index.state === "building"
        ? readProgress(engine, progressKey(tables.accountId(account), index.id))
        : undefined,
  };
}
