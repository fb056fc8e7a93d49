import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { AuthContext } from "../auth/auth-context.ts";
import { refuseStranger } from "../auth/authorize.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { Reaper } from "../catalog/reaper.ts";
import type { ServicePropertiesStore } from "../catalog/service-properties-store.ts";
import type { Clock } from "../clock.ts";
import type { ContentIds } from "../content/content-ids.ts";
import type { Engine } from "../engine/engine.ts";
import { invalidHeader } from "../http/header-values.ts";
import { checkResourceName } from "../http/resource-name.ts";
import type { Operation, RequestHead, WireRequest } from "../operation.ts";
import type { AppendQueue } from "./append-queue.ts";
import type { BlobName, BlobState, BlobStore } from "./blob-store.ts";
import type { BlockCounts } from "./block-counts.ts";
import type { ContainerValue, PublicAccess } from "./container-value.ts";
import type { Contents } from "./contents.ts";
import type { BlobResource } from "./locate.ts";
import type { Notes } from "./notes.ts";
import type { Readers } from "./readers.ts";

/** What blob operations work with. */
export interface BlobContext {
  readonly engine: Engine;
  readonly clock: Clock;
  readonly catalog: Catalog<ContainerValue>;
  readonly blobs: BlobStore;
  readonly contents: Contents;
  readonly appends: AppendQueue;
  readonly blockCounts: BlockCounts;
  readonly ids: ContentIds;
  readonly notes: Notes;
  readonly readers: Readers;
  readonly properties: ServicePropertiesStore;
  readonly reaper: Reaper<ContainerValue>;
  /** For the sources of copies, which bring credentials of their own. */
  readonly auth: AuthContext;
  /** Whether containers may be read by strangers at all. */
  readonly allowsPublicAccess: boolean;
}

export type BlobOperation<Input, Output> = Operation<BlobContext, Input, Output, BlobResource>;

/** Containers with a meaning of their own, which may be created like any other. */
const SPECIAL_CONTAINERS = new Set(["$root", "$web"]);

/** The container of the analytics log: written by the service alone, from which users may delete. */
export const LOG_CONTAINER = "$logs";
const VERBS_FOR_LOGS = new Set(["GET", "HEAD", "DELETE"]);

/**
 * The container a request names. Every operation asks, so no name that cannot exist is looked up, and
 * nobody writes where only the service does.
 * @throws ServiceError OutOfRangeInput, InvalidResourceName or AuthorizationFailure.
 */
export function containerNameOf({
  location,
  verb,
}: Pick<RequestHead, "location" | "verb">): string {
  const { name, resource } = location;
  if (name === LOG_CONTAINER) {
    const isRemoval = verb === "DELETE" && resource === "container";
    if (!VERBS_FOR_LOGS.has(verb) || isRemoval) throw new ServiceError("AuthorizationFailure");
  } else if (!SPECIAL_CONTAINERS.has(name)) {
    checkResourceName(name);
  }
  return name;
}

/** @throws ServiceError OutOfRangeInput, InvalidResourceName, AuthorizationFailure or InvalidUri. */
export function blobNameOf(request: Pick<RequestHead, "account" | "location" | "verb">): BlobName {
  const { account, location } = request;
  const container = containerNameOf(request);
  const blob = location.item ?? "";
  const segments = blob.split("/").length;
  if (blob.length > LIMITS.blobNameLengthMax || segments > LIMITS.blobNameSegmentsMax) {
    throw new ServiceError("OutOfRangeInput", { message: ERROR_TEXTS.nameLength });
  }
  // The root container has no folders; such a path names a container that cannot be.
  if (container === "$root" && segments > 1) throw new ServiceError("InvalidUri");
  return { account: account.name, container, blob };
}

const GUID =
  /^[{(]?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})[)}]?$/i;

/**
 * A GUID in any of its forms, in lower case with hyphens; undefined when the header was not sent.
 * @throws ServiceError InvalidHeaderValue
 */
export function guidHeader(head: RequestHead, name: string): string | undefined {
  const text = head.header(name);
  if (text === undefined || text === "") return undefined;
  const parts = GUID.exec(text.trim());
  if (parts === null) throw invalidHeader(name, text);
  return parts.slice(1).join("-").toLowerCase();
}

export function leaseIdOf(head: RequestHead): string | undefined {
  return guidHeader(head, "x-ms-lease-id");
}

/**
 * Strangers may read what a container's public access opens to them.
 * @throws ServiceError ResourceNotFound, so that they do not learn what there is.
 */
export function assertPublic(
  request: WireRequest,
  access: PublicAccess | undefined,
  wanted: PublicAccess,
): void {
  if (request.identity.kind !== "anonymous") return;
  if (access === "container" || access === wanted) return;
  throw refuseStranger(request.verb);
}

/**
 * Reads the state of a blob for whoever asks. Strangers cannot tell a container that is missing from
 * one that is private.
 * @throws ServiceError ContainerNotFound, ResourceNotFound, PublicAccessNotPermitted.
 */
export async function readForAnyone(
  { blobs, allowsPublicAccess }: BlobContext,
  name: BlobName,
  request: WireRequest,
): Promise<BlobState> {
  if (request.identity.kind !== "anonymous") return blobs.read(name);
  assertNotForbidden(allowsPublicAccess);
  try {
    const state = await blobs.read(name);
    assertPublic(request, state.container.value.publicAccess, "blob");
    return state;
  } catch (error) {
    if (error instanceof ServiceError && error.code === "ContainerNotFound") {
      throw refuseStranger(request.verb);
    }
    throw error;
  }
}

/** @throws ServiceError PublicAccessNotPermitted */
export function assertNotForbidden(allowsPublicAccess: boolean): void {
  if (!allowsPublicAccess) throw new ServiceError("PublicAccessNotPermitted");
}

/** Of a letter in a SAS; keys may do everything. */
export function grants({ identity }: WireRequest, letter: string): boolean {
  switch (identity.kind) {
    case "shared-key":
      return true;
    case "account-sas":
    case "service-sas":
      return identity.permissions.includes(letter);
    default:
      return false;
  }
}

/** What may create a blob; only with `w` may it replace one, which `assertMayReplace` sees to. */
export const CREATE_ACCESS = {
  resourceType: "o",
  accountSas: ["c", "w"],
  serviceSas: ["c", "w"],
  bearer: "write",
} as const;

export const WRITE_ACCESS = {
  resourceType: "o",
  accountSas: ["w"],
  serviceSas: ["w"],
  bearer: "write",
} as const;

export const READ_ACCESS = {
  resourceType: "o",
  accountSas: ["r"],
  serviceSas: ["r"],
  bearer: "read",
  anonymous: true,
} as const;

/** @throws ServiceError UnauthorizedBlobOverwrite */
export function assertMayReplace(request: WireRequest, { record }: BlobState): void {
  if (record.blob !== undefined && !grants(request, "w")) {
    throw new ServiceError("UnauthorizedBlobOverwrite");
  }
}

/** Sent with every answer to a successful write of content, properties or metadata. */
export const ENCRYPTED = ["x-ms-request-server-encrypted", "true"] as const;
