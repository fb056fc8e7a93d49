import type { Filter } from "../ports/filter.ts";
import type { Page } from "../ports/tables.ts";

/** The four classes of reads, cheapest first. */
export type Plan = "point" | "range" | "partition-scan" | "table-scan";

/** The outcome of one page of a query. */
export interface PageRead {
  readonly plan: Plan;
  readonly table: string;
  readonly filter: Filter | undefined;
  /** Whether it is the query's first page. */
  readonly isFirst: boolean;
  readonly page: Page;
  /** How many of the page's entities the caller received. */
  readonly returned: number;
  /** The index whose entries were verified against their entities to produce the page. */
  readonly checked: string | undefined;
}
