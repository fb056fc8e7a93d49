import { ServiceError } from "@rowhouse/protocol/errors";
import { refuseStranger } from "../auth/authorize.ts";
import type { Catalog, Named } from "../catalog/catalog.ts";
import { invalidHeader } from "../http/header-values.ts";
import type { RequestHead, WireRequest } from "../operation.ts";
import type { BlobName, BlobState, BlobStore } from "./blob-store.ts";
import type { ContainerValue, PublicAccess } from "./container-value.ts";

/** What may create a blob; only with `w` may it replace one, which `checkMayReplace` sees to. */
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

/** @throws ServiceError UnauthorizedBlobOverwrite */
export function checkMayReplace(request: WireRequest, { record }: BlobState): void {
  if (record.blob !== undefined && !grants(request, "w")) {
    throw new ServiceError("UnauthorizedBlobOverwrite");
  }
}

/** What strangers may read of. */
export interface Readable {
  readonly blobs: BlobStore;
  readonly catalog: Catalog<ContainerValue>;
  /** Whether they may read anything at all. */
  readonly allowsPublicAccess: boolean;
}

/**
 * Reads the state of a blob for whoever asks. Strangers cannot tell a container that is missing from
 * one that is private.
 * @throws ServiceError ContainerNotFound, ResourceNotFound, PublicAccessNotPermitted.
 */
export async function readForAnyone(
  { blobs, allowsPublicAccess }: Readable,
  name: BlobName,
  request: WireRequest,
): Promise<BlobState> {
  if (request.identity.kind !== "anonymous") return blobs.read(name);
  checkNotForbidden(allowsPublicAccess);
  try {
    const state = await blobs.read(name);
    checkPublic(state.container.value.publicAccess, "blob", request);
    return state;
  } catch (error) {
    if (error instanceof ServiceError && error.code === "ContainerNotFound") {
      throw refuseStranger(request.verb);
    }
    throw error;
  }
}

/**
 * Finds a container for whoever asks. Strangers cannot tell one that is missing from one that is
 * private.
 * @throws ServiceError ContainerNotFound, ResourceNotFound, PublicAccessNotPermitted.
 */
export async function findForAnyone(
  { allowsPublicAccess, blobs, catalog }: Readable,
  name: string,
  request: WireRequest,
): Promise<Named<ContainerValue>> {
  if (request.identity.kind !== "anonymous") return blobs.findContainer(request.account.name, name);
  checkNotForbidden(allowsPublicAccess);
  const named = await catalog.find(request.account.name, name);
  if (!named) throw refuseStranger(request.verb);
  checkPublic(named.value.publicAccess, "container", request);
  return named;
}

/** What a request opens a container to. @throws ServiceError InvalidHeaderValue */
export function publicAccessOf(head: RequestHead): PublicAccess | undefined {
  const name = "x-ms-blob-public-access";
  const text = head.header(name);
  if (text === undefined || text === "") return undefined;
  const access = text.toLowerCase();
  if (access === "container" || access === "blob") return access;
  throw invalidHeader(name, text);
}

/**
 * Strangers may read what a container's public access opens to them.
 * @throws ServiceError ResourceNotFound, so that they do not learn what there is.
 */
function checkPublic(
  access: PublicAccess | undefined,
  wanted: PublicAccess,
  { verb }: WireRequest,
): void {
  if (access !== "container" && access !== wanted) throw refuseStranger(verb);
}

/** @throws ServiceError PublicAccessNotPermitted */
export function checkNotForbidden(allowsPublicAccess: boolean): void {
  if (!allowsPublicAccess) throw new ServiceError("PublicAccessNotPermitted");
}
