import { decodeContinuation, decodeTableContinuation } from "./continuation.ts";
import { ServiceError } from "./errors.ts";
import { parseFilter, parseTableFilter } from "./filter-parser.ts";
import type { FilterNode } from "./filter-tree.ts";
import { LIMITS } from "./limits.ts";
import { isPropertyName } from "./property-name.ts";

/** Decoded names and values of a query string, in the order sent. */
export type QueryPairs = readonly (readonly [name: string, value: string])[];

/** The options of Query Entities. An option that was not sent, or sent empty, is undefined. */
export interface EntityQueryOptions {
  readonly filter: FilterNode | undefined;
  readonly select: readonly string[] | undefined;
  /** Maximum number of entities in a page, 0 … 1000. */
  readonly top: number | undefined;
  /** The first entity of the page. Without a row key, the page begins with the partition's first entity. */
  readonly from: EntityContinuation | undefined;
}

export interface EntityContinuation {
  readonly partitionKey: string;
  readonly rowKey: string | undefined;
}

/** The options of Query Tables. */
export interface TableQueryOptions {
  readonly filter: FilterNode | undefined;
  readonly top: number | undefined;
  /** Lower-cased name of the first table of the page, which need not exist. */
  readonly from: string | undefined;
}

/**
 * Parses the options of Query Entities; names that do not begin with `$` are handled elsewhere.
 * Source: "Query timeout and pagination", "Querying tables and entities".
 * @throws ServiceError InvalidInput, NotImplemented.
 */
export function parseEntityQueryOptions(pairs: QueryPairs): EntityQueryOptions {
  const options = systemOptions(pairs);
  const filter = options.get("$filter");
  return {
    filter: filter === undefined ? undefined : parseFilter(filter),
    select: parseSelect(options.get("$select")),
    top: parseTop(options.get("$top")),
    from: entityContinuation(pairs),
  };
}

/** Get Entity uses `$select` only; a `$filter` or `$top` is checked for repetition and then ignored. */
export function parseEntitySelect(pairs: QueryPairs): readonly string[] | undefined {
  // Requests with a SAS mostly repeat the previous query, and then `pairs` is the same object.
  if (pairs !== lastPairs) {
    lastSelect = parseSelect(systemOptions(pairs).get("$select"));
    lastPairs = pairs;
  }
  return lastSelect;
}

let lastPairs: QueryPairs | undefined;
let lastSelect: readonly string[] | undefined;

/** Parses the options of Query Tables. `$select` is only checked: a table has a single property. */
export function parseTableQueryOptions(pairs: QueryPairs): TableQueryOptions {
  const options = systemOptions(pairs);
  const filter = options.get("$filter");
  const from = firstValue(pairs, "NextTableName");
  parseSelect(options.get("$select"));
  return {
    filter: filter === undefined ? undefined : parseTableFilter(filter),
    top: parseTop(options.get("$top")),
    from: from === undefined || from === "" ? undefined : decodeTableContinuation(from),
  };
}

const KNOWN = new Set(["$filter", "$select", "$top", "$format"]);

/** OData options that the service rejects by name; whether with 400 or 501 is unconfirmed. */
const UNSUPPORTED = new Set([
  "$orderby",
  "$skip",
  "$skiptoken",
  "$inlinecount",
  "$count",
  "$expand",
]);

/**
 * The `$` options sent with a value. An option sent twice is an error, because either value could
 * be meant.
 */
function systemOptions(pairs: QueryPairs): ReadonlyMap<string, string> {
  const options = new Map<string, string>();
  for (const [name, value] of pairs) {
    if (!name.startsWith("$") || value.trim() === "") continue;
    if (UNSUPPORTED.has(name)) throw new ServiceError("NotImplemented");
    if (!KNOWN.has(name) || options.has(name)) throw new ServiceError("InvalidInput");
    options.set(name, value);
  }
  return options;
}

function parseTop(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^[0-9]{1,9}$/.test(text)) throw new ServiceError("InvalidInput");
  const top = Number(text);
  if (top > LIMITS.pageEntitiesMax) throw new ServiceError("InvalidInput");
  return top;
}

/** Each name once, in the order given; undefined selects all properties. */
function parseSelect(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const names = new Set<string>();
  for (const part of text.split(",")) {
    const name = part.trim();
    if (name !== "*" && !isPropertyName(name)) throw new ServiceError("InvalidInput");
    names.add(name);
  }
  if (names.has("*")) return undefined;
  if (names.size > LIMITS.selectNamesMax) throw new ServiceError("InvalidInput");
  return [...names];
}

/** The service rejects an empty `NextRowKey`; here it means the start of the partition. */
function entityContinuation(pairs: QueryPairs): EntityContinuation | undefined {
  const partitionKey = firstValue(pairs, "NextPartitionKey");
  const rowKey = firstValue(pairs, "NextRowKey");
  if (partitionKey === undefined) {
    if (rowKey !== undefined) throw new ServiceError("InvalidInput");
    return undefined;
  }
  return {
    partitionKey: decodeContinuation(partitionKey),
    rowKey: rowKey === undefined ? undefined : decodeContinuation(rowKey),
  };
}

function firstValue(pairs: QueryPairs, name: string): string | undefined {
  return pairs.find(([given]) => given === name)?.[1];
}
