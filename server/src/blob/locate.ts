import { ServiceError } from "@rowhouse/protocol/errors";
import type { Query } from "../http/query.ts";
import type { Location, RequestHead } from "../operation.ts";

const ROOT_CONTAINER = "$root";

/** What a path names, and so where an operation can listen. */
export type BlobResource =
  | "account" // `/`
  | "service" // `/?restype=service`
  | "account information" // `restype=account`, of anything
  | "container" // `/CONTAINER?restype=container`
  | "blob" // `/CONTAINER/BLOB`, or `/BLOB` in the root container
  | "hierarchy" // `resource=` or `action=`: a file system of Data Lake, and what is in it
  | "unknown restype"; // Nothing listens on these two; judged only once the caller is known.

/**
 * Reads the path below the account. A blob's name is all that follows the container's slash,
 * percent-decoded once; slashes in it are as good as any other character.
 * @throws ServiceError InvalidUri
 */
export function locateBlob(servicePath: string, query: Query): Location<BlobResource> {
  const path = decode(servicePath.slice(1));
  const type = query.get("restype")?.toLowerCase();
  const slash = path.indexOf("/");
  const first = slash < 0 ? path : path.slice(0, slash);
  const rest = slash < 0 ? undefined : path.slice(slash + 1);
  switch (type) {
    case undefined:
      if (isOfHierarchy(query)) return { resource: "hierarchy", name: first };
      if (path === "") return { resource: "account", name: "" };
      if (rest === undefined) return { resource: "blob", name: ROOT_CONTAINER, item: first };
      if (first === "" || rest === "") throw new ServiceError("InvalidUri");
      return { resource: "blob", name: first, item: rest };
    case "account":
      return rest
        ? { resource: "account information", name: first, item: rest }
        : { resource: "account information", name: first };
    case "service":
      if (path !== "") throw new ServiceError("InvalidUri");
      return { resource: "service", name: "" };
    case "container":
      // How the official client asks for a batch of an account that is in the path.
      if (path === "" && isBatch(query)) return { resource: "account", name: "" };
      if (first === "" || rest) throw new ServiceError("InvalidUri");
      return { resource: "container", name: first };
    default:
      return { resource: "unknown restype", name: first };
  }
}

/** Taken for requests of the Blob service some would do harm: a DELETE of a file system, of a blob. */
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

/** The method by which Copy Blob is told from Put Blob. */
export const COPY = "COPY";

/**
 * HEAD is GET where the answer stands in headers, but for a blob itself, whose content it leaves out.
 * A PUT that names a source and no type of blob is a copy.
 */
export function blobMethodOf(head: RequestHead): string {
  const { verb } = head;
  if (verb === "HEAD") return ANSWERED_IN_HEADERS.has(resourceAndComp(head)) ? "GET" : verb;
  if (verb !== "PUT" || head.header("x-ms-copy-source") === undefined) return verb;
  if (resourceAndComp(head) !== "blob " || head.header("x-ms-blob-type") !== undefined) return verb;
  return COPY;
}

/** Lists and service properties are not in it: HEAD is no method of theirs. */
const ANSWERED_IN_HEADERS = new Set([
  "account information properties",
  "container ",
  "container metadata",
  "container acl",
  "blob metadata",
]);

/** An empty `comp` is none, as for the routes. */
function resourceAndComp({ location, query }: RequestHead): string {
  return `${location.resource} ${query.get("comp")?.toLowerCase() ?? ""}`;
}
