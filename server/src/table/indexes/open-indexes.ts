import type { BackgroundWork } from "../../catalog/background-loop.ts";
import type { Catalog } from "../../catalog/catalog.ts";
import type { Foundation } from "../../catalog/open-catalog.ts";
import type { Reaper } from "../../catalog/reaper.ts";
import type { TableValue } from "../table-value.ts";
import { progressKey, readProgress } from "./index-build.ts";
import { IndexBuilder } from "./index-builder.ts";
import { IndexCatalog, type KeptIndex } from "./index-catalog.ts";
import { IndexCheck } from "./index-check.ts";
import { type ShownIndex, showIndex } from "./index-json.ts";

/** All that is done with indexes besides reading and writing through them. */
export interface Indexes {
  readonly catalog: IndexCatalog;
  /** Not started yet. */
  readonly builder: IndexBuilder & BackgroundWork;
  readonly check: IndexCheck;
  /** While an index is built, with how far that has come. */
  readonly show: (account: string, kept: KeptIndex) => Promise<ShownIndex>;
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
    show: async (account, kept) => {
      if (kept.index.state !== "building") return showIndex(kept);
      const key = progressKey(tables.accountId(account), kept.index.id);
      return showIndex(kept, await readProgress(engine, key), clock.now());
    },
  };
}
