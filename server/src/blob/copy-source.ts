import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { withoutSignature } from "@rowhouse/protocol/without-signature";
import { authenticate } from "../auth/authenticate.ts";
import { authorize } from "../auth/authorize.ts";
import { blobAuth } from "../auth/dialect.ts";
import { invalidHeader, requiredHeader } from "../wire/header-values.ts";
import type { Caller, Location, RequestHead, WireRequest } from "../wire/operation.ts";
import { Query } from "../wire/query.ts";
import { checkNotForbidden, READ_ACCESS } from "./blob-access.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobContext, blobNameOf } from "./blob-operation.ts";
import type { BlobState } from "./blob-store.ts";
import { locateBlob } from "./locate.ts";

/** The source of a copy, as a request to this server would name it. */
export interface CopySource {
  /** The URL as sent, without the signature: it is shown to everyone who may read the copy. */
  readonly url: string;
  readonly name: BlobName;
  /** Whether it is in the account that the request addresses. */
  readonly isOwn: boolean;
  /** Its account is looked up when the copy runs. */
  readonly head: Omit<RequestHead, "account">;
}

/**
 * Reads `x-ms-copy-source`: the URL of a blob on this server, in any style.
 * @throws ServiceError InvalidHeaderValue, CopyAcrossAccountsNotSupported for another server, and for the name as `blobNameOf`.
 */
export function copySourceOf(request: WireRequest): CopySource {
  const header = "x-ms-copy-source";
  const url = requiredHeader(request, header);
  const parts = /^https?:\/\/([^/?#]+)(\/[^?#]*)(?:\?([^#]*))?$/i.exec(url);
  if (parts === null || url.length > LIMITS.copySourceLengthMax) throw invalidHeader(header, url);
  const [, host = "", path = "", query = ""] = parts;
  const { account, path: below } = placeOf(request, host, path);
  const address = { path: below, query: new Query(query) };
  const location = locationOf(address);
  if (location?.resource !== "blob") throw invalidHeader(header, url);
  const head = sourceHead(request, address, location);
  const queryAt = url.indexOf("?") + 1;
  const shown = url.slice(0, queryAt) + withoutSignature(url.slice(queryAt));
  return {
    url: queryAt === 0 ? url : shown,
    name: blobNameOf({ ...head, account: { name: account } }),
    isOwn: account === request.account.name,
    head,
  };
}

/**
 * The account that a URL names, which may be none of ours, and the path below it. A URL of any other server is
 * refused, also one of the cloud account with our account's name, which must not be taken for a local blob.
 */
function placeOf(request: WireRequest, host: string, path: string): SourcePlace {
  const { account, baseUrl } = request;
  const source = host.toLowerCase();
  const own = request.header("host")?.toLowerCase() ?? "";
  const server = without(`${account.name}.blob.`, own);
  // The request's own host is read in the request's own style.
  const isOwnHostStyle = source === own && !baseUrl.endsWith(`/${account.name}`);
  if (isOwnHostStyle) return { account: account.name, path };
  const [, label = "", rest = ""] = /^([a-z0-9]+)\.blob\.(.+)$/.exec(source) ?? [];
  if (source !== own && label !== "" && isSameServer(rest, server)) return { account: label, path };
  const [, segment = "", below = ""] = /^\/([^/]+)(\/.*)$/.exec(path) ?? [];
  if (segment !== "" && isSameServer(source === own ? server : source, server)) {
    return { account: segment, path: below };
  }
  throw notOurs();
}

interface SourcePlace {
  readonly account: string;
  readonly path: string;
}

function notOurs(): ServiceError {
  return new ServiceError("CopyAcrossAccountsNotSupported", {
    message: "The copy source must be a blob of an account of this server.",
  });
}

function without(label: string, host: string): string {
  return host.startsWith(label) ? host.slice(label.length) : host;
}

const LOOPBACK = new Set(["127.0.0.1", "localhost", "[::1]"]);

/** Whether two hosts, without the account, are the same or both name this machine. */
function isSameServer(host: string, own: string): boolean {
  if (host === own) return true;
  if (portOf(host) !== portOf(own)) return false;
  return LOOPBACK.has(nameOf(host)) && LOOPBACK.has(nameOf(own));
}

function portOf(host: string): string {
  return /:(\d+)$/.exec(host)?.[1] ?? "";
}

function nameOf(host: string): string {
  return host.replace(/:\d+$/, "");
}

/** The path below the account and the query that a request for the source would have. */
interface SourceAddress {
  readonly path: string;
  readonly query: Query;
}

/** The location of the source; undefined for a malformed escape or a path that names nothing. */
function locationOf({ path, query }: SourceAddress): Location | undefined {
  try {
    return locateBlob(path, query);
  } catch (error) {
    if (error instanceof URIError || error instanceof ServiceError) return undefined;
    throw error;
  }
}

/** A read of the source, with the credentials in its URL, if any. */
function sourceHead(
  request: WireRequest,
  { path, query }: SourceAddress,
  location: Location,
): CopySource["head"] {
  return {
    verb: "GET",
    rawPath: path,
    query,
    header: () => undefined,
    rawHeaders: [],
    location,
    baseUrl: request.baseUrl,
    secondary: false,
    secure: request.secure,
    remoteAddress: request.remoteAddress,
    requestId: request.requestId,
    arrivedAt: request.arrivedAt,
  };
}

/**
 * Reads the source if the caller may read it. With a key or an account SAS, that is any blob of the addressed
 * account; with a service SAS, or in another account of this server, a public blob. A token in the URL decides
 * instead, whoever the caller is: not confirmed by a recording.
 * @throws ServiceError CopyAcrossAccountsNotSupported, ContainerNotFound, BlobNotFound, CannotVerifyCopySource with
 * the status that a read of the source would have.
 */
export async function readSource(
  context: BlobContext,
  source: CopySource,
  { identity }: Caller,
): Promise<BlobState> {
  const account = context.accounts.find(source.name.account);
  if (account === undefined) throw notOurs();
  const head: RequestHead = { ...source.head, account };
  const isCallers = source.isOwn && source.head.query.get("sig") === undefined;
  if (isCallers && identity.kind === "shared-key") {
    return found(await context.blobs.read(source.name));
  }
  if (isCallers && identity.kind === "account-sas") {
    if (!identity.permissions.includes("r")) throw cannotVerify(403);
    return found(await context.blobs.read(source.name));
  }
  try {
    const reader = await authenticate(head, blobAuth, context.auth);
    authorize(head, reader, READ_ACCESS, blobAuth);
    if (reader.kind === "anonymous") checkNotForbidden(context.allowsPublicAccess);
    const state = await context.blobs.read(source.name);
    const isPublic = state.container.value.publicAccess !== undefined;
    if (reader.kind === "anonymous" && !isPublic) throw cannotVerify(404);
    return found(state);
  } catch (error) {
    if (error instanceof ServiceError) throw cannotVerify(error.status, error);
    throw error;
  }
}

function found(state: BlobState): BlobState {
  if (state.record.blob === undefined) throw new ServiceError("BlobNotFound");
  return state;
}

function cannotVerify(status: number, cause?: unknown): ServiceError {
  return new ServiceError("CannotVerifyCopySource", { status, cause });
}

/** @throws ServiceError NotImplemented for sources that would need to be read with credentials. */
export function refuseSourceCredentials(head: RequestHead): void {
  const tags = head.header("x-ms-copy-source-tag-option")?.toLowerCase();
  if (head.header("x-ms-copy-source-authorization") !== undefined || tags === "copy") {
    throw new ServiceError("NotImplemented");
  }
}
