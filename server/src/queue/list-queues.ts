import type { Named } from "../catalog/catalog.ts";
import {
  type Listing,
  listingOf,
  printEntries,
  printListing,
  printMetadata,
  REPEATED,
} from "../wire/listing.ts";
import { printElement, printLeaf, xmlResponse } from "../xml/print-xml.ts";
import type { QueueValue } from "./message-store.ts";
import type { QueueOperation } from "./queue-operation.ts";

interface ListQueuesOutput {
  /** XML. */
  readonly entries: string;
  readonly next: string | undefined;
}

/**
 * List Queues: a page of names in ascending order. The marker is the name of the page's first queue, which
 * need not exist any more: any text is accepted.
 */
export const listQueues: QueueOperation<Listing, ListQueuesOutput> = {
  name: "ListQueues",
  route: { method: "GET", resource: "account", comp: "list" },
  access: { resourceType: "s", accountSas: ["l"], serviceSas: [], bearer: "read" },
  decode: (request) => listingOf(request, ["metadata"]),

  async run({ catalog }, { account, prefix, marker, max, includes }) {
    const { names, next } = await catalog.page(account, { prefix, from: marker, max });
    const withMetadata = includes.has("metadata");
    return { entries: await printEntries(names, (name) => printQueue(name, withMetadata)), next };
  },

  encode({ entries, next }, request) {
    const page = { repeated: REPEATED, element: "Queues", entries, nextMarker: next ?? "" };
    return xmlResponse(200, printListing(request, page));
  },
};

function printQueue({ name, value }: Named<QueueValue>, withMetadata: boolean): string {
  const metadata = value.metadata.toSorted(([a], [b]) => (a < b ? -1 : 1));
  return printElement(
    "Queue",
    printLeaf("Name", name) + (withMetadata ? printMetadata(metadata) : ""),
  );
}
