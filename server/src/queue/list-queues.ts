import { LIMITS } from "@rowhouse/protocol/limits";
import type { Named } from "../catalog/catalog.ts";
import { xmlResponse } from "../catalog/service-operations.ts";
import type { Query } from "../http/query.ts";
import { integerParameter, invalidParameter } from "../http/query-parameters.ts";
import { QUEUE_DOCUMENTS } from "../xml/document-rules.ts";
import { escapeAttribute, printDocument, printElement, printLeaf } from "../xml/print-xml.ts";
import type { QueueValue } from "./message-store.ts";
import type { QueueOperation } from "./queue-operation.ts";

interface ListQueuesInput {
  readonly prefix: string;
  /** The name of the first queue of the page, or of one that stood there: any text will do. */
  readonly marker: string;
  readonly max: number;
  readonly withMetadata: boolean;
}

interface ListQueuesOutput {
  readonly queues: readonly Named<QueueValue>[];
  readonly next: string | undefined;
  readonly withMetadata: boolean;
}

/** List Queues: a page of names in ascending order. */
export const listQueues: QueueOperation<ListQueuesInput, ListQueuesOutput> = {
  name: "ListQueues",
  route: { method: "GET", resource: "account", comp: "list" },
  access: { resourceType: "s", accountSas: ["l"], serviceSas: [], bearer: "read" },

  decode: ({ query }) => ({
    prefix: query.get("prefix") ?? "",
    marker: query.get("marker") ?? "",
    max: Math.min(
      integerParameter(query, "maxresults", MAX_RESULTS) ?? LIMITS.pageNamesMax,
      LIMITS.pageNamesMax,
    ),
    withMetadata: includesMetadata(query),
  }),

  async run({ catalog }, { prefix, marker, max, withMetadata }, { account }) {
    let count = 0;
    let next: string | undefined;
    const queues = await catalog.list(account.name, { prefix, from: marker }, ({ name }) => {
      if (count < max) {
        count++;
        return "take";
      }
      next = name;
      return "end";
    });
    return { queues, next, withMetadata };
  },

  encode({ queues, next, withMetadata }, { query, baseUrl }) {
    const asked = (element: string, parameter: string) => {
      const value = query.get(parameter);
      return value === undefined ? "" : printLeaf(element, value);
    };
    const list = queues.map((queue) => printQueue(queue, withMetadata)).join("");
    const content =
      asked("Prefix", "prefix") +
      asked("Marker", "marker") +
      asked("MaxResults", "maxresults") +
      printElement("Queues", list) +
      printLeaf("NextMarker", next ?? "");
    const root = `<EnumerationResults ServiceEndpoint="${escapeAttribute(baseUrl)}/">${content}</EnumerationResults>`;
    return xmlResponse(200, printDocument(root, QUEUE_DOCUMENTS));
  },
};

/** More than a page can hold means a whole page. */
const MAX_RESULTS = { min: 1, max: Number.POSITIVE_INFINITY };

/** @throws ServiceError InvalidQueryParameterValue */
function includesMetadata(query: Query): boolean {
  const values = query.getAll("include");
  for (const value of values.flatMap((list) => list.split(","))) {
    if (value.trim().toLowerCase() === "metadata") continue;
    throw invalidParameter("include", value, "Only metadata can be included.");
  }
  return values.length > 0;
}

function printQueue({ name, value }: Named<QueueValue>, withMetadata: boolean): string {
  const pairs = value.metadata.toSorted(([a], [b]) => (a < b ? -1 : 1));
  const metadata = pairs.map(([name, text]) => printLeaf(name, text)).join("");
  return printElement(
    "Queue",
    printLeaf("Name", name) + (withMetadata ? printElement("Metadata", metadata) : ""),
  );
}
