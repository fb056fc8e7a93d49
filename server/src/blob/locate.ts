import { ServiceError } from "@rowhouse/protocol/errors";
import type { Location, RequestHead } from "../wire/operation.ts";
import type { Query } from "../wire/query.ts";

const ROOT_CONTAINER = "$root";

/** The kinds of resource that a path can name, and so the resources of routes. */
export type BlobResource =
  | "account" // `/`
  | "service" // `/?restype=service`
  | "account information" // `restype=account`, of anything
  | "container" // `/CONTAINER?restype=container`
  | "blob" // `/CONTAINER/BLOB`, or `/BLOB` in the root container
  | "hierarchy" // `resource=` or `action=`: a file system of Data Lake, and what is in it
  | "unknown restype"; // No operation serves these two; refused only after authentication.

/**
 * Reads the path below the account. A blob's name is everything after the slash behind the container,
 * percent-decoded once and then normalized; slashes in it are ordinary characters.
 * @throws ServiceError InvalidUri
 */
export function locateBlob(servicePath: string, query: Query): Location<BlobResource> {
  const path = decode(servicePath.slice(1)).replaceAll("\\", "/");
  const type = query.get("restype")?.toLowerCase();
  const slash = path.indexOf("/");
  const first = slash < 0 ? path : path.slice(0, slash);
  const rest = slash < 0 ? undefined : normalized(path.slice(slash + 1));
  switch (type) {
    case undefined:
      if (isOfHierarchy(query)) return { resource: "hierarchy", name: first };
      if (path === "") return { resource: "account", name: "" };
      if (rest === undefined) {
        return { resource: "blob", name: ROOT_CONTAINER, item: nonEmpty(normalized(first)) };
      }
      if (first === "") throw new ServiceError("InvalidUri");
      return { resource: "blob", name: first, item: nonEmpty(rest) };
    case "account":
      return rest
        ? { resource: "account information", name: first, item: rest }
        : { resource: "account information", name: first };
    case "service":
      if (path !== "") throw new ServiceError("InvalidUri");
      return { resource: "service", name: "" };
    case "container":
      // The official client addresses a batch this way if the account is in the path.
      if (path === "" && isBatch(query)) return { resource: "account", name: "" };
      if (first === "" || rest) throw new ServiceError("InvalidUri");
      return { resource: "container", name: first };
    default:
      return { resource: "unknown restype", name: first };
  }
}

/** As requests to the Blob service, some would do harm: a DELETE of a file system would delete a blob. */
function isOfHierarchy(query: Query): boolean {
  return query.get("resource") !== undefined || query.get("action") !== undefined;
}

function isBatch(query: Query): boolean {
  return query.get("comp")?.toLowerCase() === "batch";
}

function decode(path: string): string {
  try {
    return path.includes("%") ? decodeURIComponent(path) : path;
  } catch (cause) {
    throw new ServiceError("InvalidUri", { cause });
  }
}

/**
 * The name of a blob as the service reads it, whether or not its characters were escaped: the segments `.` and `..`
 * are resolved, though never beyond the container (not confirmed by a recording), and dots at the end of a segment
 * go. Several slashes in a row and one at the end stay.
 */
function normalized(name: string): string {
  if (!UNUSUAL.test(name)) return name;
  const segments: string[] = [];
  const sent = name.split("/");
  for (const [index, segment] of sent.entries()) {
    const isLast = index === sent.length - 1;
    if (segment === "..") segments.pop();
    else if (segment !== ".") segments.push(segment.replace(/\.+$/, ""));
    // What such a segment leaves at the end is the folder.
    if (isLast && (segment === "." || segment === "..")) segments.push("");
  }
  return segments.join("/");
}

const UNUSUAL = /\.(?:\/|$)/;

/** @throws ServiceError InvalidUri */
function nonEmpty(name: string): string {
  if (name === "") throw new ServiceError("InvalidUri");
  return name;
}

/** The method that distinguishes Copy Blob from Put Blob. */
export const COPY = "COPY";

/**
 * HEAD is routed as GET where the answer is all in headers, except on a blob itself, whose content it leaves
 * out. A PUT that names a source and no blob type is a copy.
 */
export function blobMethodOf(head: RequestHead): string {
  const { verb } = head;
  if (verb === "HEAD") return ANSWERED_IN_HEADERS.has(resourceAndComp(head)) ? "GET" : verb;
  if (verb !== "PUT" || head.header("x-ms-copy-source") === undefined) return verb;
  if (resourceAndComp(head) !== "blob " || head.header("x-ms-blob-type") !== undefined) return verb;
  return COPY;
}

/** Lists and service properties are missing: they do not support HEAD. */
const ANSWERED_IN_HEADERS = new Set([
  "account information properties",
  "container ",
  "container metadata",
  "container acl",
  "blob metadata",
]);

/** An empty `comp` counts as absent, as it does in routes. */
function resourceAndComp({ location, query }: RequestHead): string {
  return `${location.resource} ${query.get("comp")?.toLowerCase() ?? ""}`;
}
