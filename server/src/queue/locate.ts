import { ServiceError } from "@rowhouse/protocol/errors";
import type { Location, RequestHead } from "../wire/operation.ts";
import type { Query } from "../wire/query.ts";
import { invalidParameter } from "../wire/query-parameters.ts";

/** The kinds of resource that a path can name, and so the resources of routes. */
export type QueueResource =
  | "account" // `/`
  | "service" // `/?restype=service`
  | "queue" // `/QUEUE`
  | "messages" // `/QUEUE/messages`
  | "message" // `/QUEUE/messages/ID`
  | "unknown restype"; // No operation serves it; refused only after authentication.

type QueueLocation = Location<QueueResource>;

const ACCOUNT: QueueLocation = { resource: "account", name: "" };
const SERVICE: QueueLocation = { resource: "service", name: "" };
const UNKNOWN_TYPE: QueueLocation = { resource: "unknown restype", name: "" };

/**
 * Reads the path below the account, with or without a trailing slash.
 * @throws ServiceError InvalidUri, or URIError for an escape that is not UTF-8.
 */
export function locateQueue(servicePath: string, query: Query): QueueLocation {
  const segments = servicePath.split("/").slice(1);
  if (segments.at(-1) === "") segments.pop();
  if (segments.length === 0) return locateRoot(query.get("restype"));
  const [name = "", messages, item] = segments.map(decodeURIComponent);
  if (name === "" || segments.length > 3) throw new ServiceError("InvalidUri");
  if (messages === undefined) return { resource: "queue", name };
  if (messages.toLowerCase() !== "messages") throw new ServiceError("InvalidUri");
  return item === undefined ? { resource: "messages", name } : { resource: "message", name, item };
}

function locateRoot(type: string | undefined): QueueLocation {
  if (type === undefined) return ACCOUNT;
  return type.toLowerCase() === "service" ? SERVICE : UNKNOWN_TYPE;
}

/** The method that distinguishes Peek Messages from Get Messages. */
export const PEEK = "GET peekonly";

/**
 * HEAD on a queue is routed as GET; reading messages with `peekonly=true` is routed as a peek.
 * @throws ServiceError InvalidQueryParameterValue
 */
export function queueMethodOf({ verb, location, query }: RequestHead): string {
  if (verb === "HEAD" && location.resource === "queue") return "GET";
  if (verb !== "GET" || location.resource !== "messages") return verb;
  const peekOnly = query.get("peekonly");
  switch (peekOnly?.toLowerCase()) {
    case undefined:
    case "false":
      return verb;
    case "true":
      return PEEK;
    default:
      throw invalidParameter("peekonly", peekOnly ?? "", "true or false is expected.");
  }
}
