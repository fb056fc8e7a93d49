import { LIMITS } from "@rowhouse/protocol/limits";
import { TimeSlice, timeInTurn } from "../engine/time-slice.ts";
import { escapeAttribute, printDocument, printElement, printLeaf } from "../xml/print-xml.ts";
import type { Metadata } from "./metadata.ts";
import type { RequestHead, WireRequest } from "./operation.ts";
import type { Query } from "./query.ts";
import { integerParameter, invalidParameter } from "./query-parameters.ts";

/** The parameters that List Queues, List Containers and List Blobs share. */
export interface Listing {
  readonly account: string;
  readonly prefix: string;
  /** Where the page begins, in the service's own encoding; "" for the first page. */
  readonly marker: string;
  /** Maximum number of entries on the page. */
  readonly max: number;
  /** In lower case. */
  readonly includes: ReadonlySet<string>;
}

const MAX_RESULTS = { min: 1, max: LIMITS.pageNamesMax, above: "counts as max" } as const;

/**
 * @param includable the values that `include` may name, in lower case
 * @throws ServiceError InvalidQueryParameterValue or OutOfRangeQueryParameterValue.
 */
export function listingOf(
  { account, query }: Pick<WireRequest, "account" | "query">,
  includable: readonly string[],
): Listing {
  return {
    account: account.name,
    prefix: query.get("prefix") ?? "",
    marker: query.get("marker") ?? "",
    max: integerParameter(query, "maxresults", MAX_RESULTS) ?? LIMITS.pageNamesMax,
    includes: includesOf(query, includable),
  };
}

/** Accepts a comma-separated list, or several parameters. */
function includesOf(query: Query, includable: readonly string[]): ReadonlySet<string> {
  const includes = new Set<string>();
  for (const text of query.getAll("include").flatMap((list) => list.split(","))) {
    const name = text.trim().toLowerCase();
    if (name === "") continue;
    if (!includable.includes(name)) {
      throw invalidParameter("include", text, `One of ${includable.join(", ")} is expected.`);
    }
    includes.add(name);
  }
  return includes;
}

/** One page, ready to be printed. */
export interface PrintedPage {
  /** Further attributes of the root element. */
  readonly attributes?: readonly (readonly [name: string, value: string])[];
  /** Elements that repeat a request parameter, if it was sent. */
  readonly repeated: readonly (readonly [element: string, parameter: string])[];
  /** "Queues", "Containers", "Blobs". */
  readonly element: string;
  /** XML. */
  readonly entries: string;
  readonly nextMarker: string;
}

export const REPEATED = [
  ["Prefix", "prefix"],
  ["Marker", "marker"],
  ["MaxResults", "maxresults"],
] as const;

/**
 * Each entry printed, joined. A whole page takes tens of milliseconds, so it yields to the event loop as scans do;
 * that is why operations print their entries in `run`.
 */
export async function printEntries<Entry>(
  entries: readonly Entry[],
  print: (entry: Entry) => string,
): Promise<string> {
  await timeInTurn();
  const slice = new TimeSlice();
  let printed = "";
  for (const entry of entries) {
    printed += print(entry);
    if (slice.isSpent()) await slice.nextTurn();
  }
  return printed;
}

export function printListing({ query, baseUrl }: RequestHead, page: PrintedPage): string {
  const attributes = [["ServiceEndpoint", `${baseUrl}/`] as const, ...(page.attributes ?? [])]
    .map(([name, value]) => ` ${name}="${escapeAttribute(value)}"`)
    .join("");
  const repeated = page.repeated.map(([element, parameter]) => {
    const value = query.get(parameter);
    return value === undefined ? "" : printLeaf(element, value);
  });
  const content =
    repeated.join("") +
    printElement(page.element, page.entries) +
    printLeaf("NextMarker", page.nextMarker);
  return printDocument(`<EnumerationResults${attributes}>${content}</EnumerationResults>`);
}

export function printMetadata(metadata: Metadata): string {
  return printElement("Metadata", metadata.map(([name, value]) => printLeaf(name, value)).join(""));
}
