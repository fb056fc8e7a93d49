/** A request for one operation, valid for a queue named `orders` with any message in it. */
export interface QueueSample {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly body?: string;
  /**
   * Letters of an account SAS, each sufficient alone, and its resource type; undefined if no account SAS
   * suffices.
   */
  readonly account: { readonly type: "s" | "c" | "o"; readonly letters: string } | undefined;
  /** The letter of a queue's SAS that permits it; undefined if no such SAS suffices. */
  readonly service?: string;
}

const ID = "5974b586-0df3-4e2d-ad0c-18e3892bfca2";
const RECEIPT = "AQAAAAEAAAAAAAAAt7c1Zg";
const MESSAGE = "<QueueMessage><MessageText>x</MessageText></QueueMessage>";
const PROPERTIES = "<StorageServiceProperties><Cors /></StorageServiceProperties>";
const IDENTIFIERS = "<SignedIdentifiers />";

export const SERVICE_SAMPLES: readonly QueueSample[] = [
  { name: "ListQueues", method: "GET", path: "/?comp=list", account: { type: "s", letters: "l" } },
  {
    name: "GetQueueServiceProperties",
    method: "GET",
    path: "/?restype=service&comp=properties",
    account: { type: "s", letters: "r" },
  },
  {
    name: "SetQueueServiceProperties",
    method: "PUT",
    path: "/?restype=service&comp=properties",
    body: PROPERTIES,
    account: { type: "s", letters: "w" },
  },
  {
    name: "GetQueueServiceStats",
    method: "GET",
    path: "/?restype=service&comp=stats",
    account: { type: "s", letters: "r" },
  },
];

export const QUEUE_SAMPLES: readonly QueueSample[] = [
  { name: "CreateQueue", method: "PUT", path: "/orders", account: { type: "c", letters: "cw" } },
  { name: "DeleteQueue", method: "DELETE", path: "/orders", account: { type: "c", letters: "d" } },
  {
    name: "GetQueueMetadata",
    method: "GET",
    path: "/orders?comp=metadata",
    account: { type: "c", letters: "r" },
    service: "r",
  },
  {
    name: "SetQueueMetadata",
    method: "PUT",
    path: "/orders?comp=metadata",
    account: { type: "c", letters: "w" },
  },
  { name: "GetQueueACL", method: "GET", path: "/orders?comp=acl", account: undefined },
  {
    name: "SetQueueACL",
    method: "PUT",
    path: "/orders?comp=acl",
    body: IDENTIFIERS,
    account: undefined,
  },
  {
    name: "PutMessage",
    method: "POST",
    path: "/orders/messages",
    body: MESSAGE,
    account: { type: "o", letters: "a" },
    service: "a",
  },
  {
    name: "GetMessages",
    method: "GET",
    path: "/orders/messages",
    account: { type: "o", letters: "p" },
    service: "p",
  },
  {
    name: "PeekMessages",
    method: "GET",
    path: "/orders/messages?peekonly=true",
    account: { type: "o", letters: "r" },
    service: "r",
  },
  {
    name: "UpdateMessage",
    method: "PUT",
    path: `/orders/messages/${ID}?popreceipt=${RECEIPT}&visibilitytimeout=0`,
    body: MESSAGE,
    account: { type: "o", letters: "u" },
    service: "u",
  },
  {
    name: "DeleteMessage",
    method: "DELETE",
    path: `/orders/messages/${ID}?popreceipt=${RECEIPT}`,
    account: { type: "o", letters: "p" },
    service: "p",
  },
  {
    name: "ClearMessages",
    method: "DELETE",
    path: "/orders/messages",
    account: { type: "o", letters: "d" },
  },
];
