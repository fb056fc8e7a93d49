import { ServiceError } from "@rowhouse/protocol/errors";
import { refuseAnonymous } from "../auth/authorize.ts";
import type { Catalog, Named } from "../catalog/catalog.ts";
import { invalidHeader } from "../wire/header-values.ts";
import type { Caller, RequestHead } from "../wire/operation.ts";
import type { BlobName } from "./blob-keys.ts";
import type { BlobState, BlobStore } from "./blob-store.ts";
import type { ContainerValue, PublicAccess } from "./container-value.ts";

/** For operations that may create a blob. Replacing one also needs `w`: see `checkMayReplace`. */
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

/** Whether a SAS grants this letter; a shared key may do everything. */
export function grants({ identity }: Caller, letter: string): boolean {
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
export function checkMayReplace(caller: Caller, { record }: BlobState): void {
  if (record.blob !== undefined && !grants(caller, "w")) {
    throw new ServiceError("UnauthorizedBlobOverwrite");
  }
}

/** What reads by anonymous callers need. */
export interface Readable {
  readonly blobs: BlobStore;
  readonly catalog: Catalog<ContainerValue>;
  /** Whether anonymous callers may read anything at all. */
  readonly allowsPublicAccess: boolean;
}

/**
 * Reads the state of a blob for any caller. Anonymous callers cannot distinguish a missing
 * container from a private one.
 * @throws ServiceError ContainerNotFound, ResourceNotFound, PublicAccessNotPermitted.
 */
export async function readForCaller(
  { blobs, allowsPublicAccess }: Readable,
  name: BlobName,
  caller: Caller,
): Promise<BlobState> {
  if (caller.identity.kind !== "anonymous") return blobs.read(name);
  checkNotForbidden(allowsPublicAccess);
  try {
    const state = await blobs.read(name);
    checkPublic(state.container.value.publicAccess, "blob", caller);
    return state;
  } catch (error) {
    if (error instanceof ServiceError && error.code === "ContainerNotFound") {
      throw refuseAnonymous(caller.verb);
    }
    throw error;
  }
}

/**
 * Finds a container for any caller. Anonymous callers cannot distinguish a missing container from a private one.
 * @throws ServiceError ContainerNotFound, ResourceNotFound, PublicAccessNotPermitted.
 */
export async function findForCaller(
  { allowsPublicAccess, blobs, catalog }: Readable,
  name: string,
  caller: Caller,
): Promise<Named<ContainerValue>> {
  if (caller.identity.kind !== "anonymous") return blobs.findContainer(caller.account.name, name);
  checkNotForbidden(allowsPublicAccess);
  const named = await catalog.find(caller.account.name, name);
  if (!named) throw refuseAnonymous(caller.verb);
  checkPublic(named.value.publicAccess, "container", caller);
  return named;
}

/** The public access that a request sets for a container. @throws ServiceError InvalidHeaderValue */
export function publicAccessOf(head: RequestHead): PublicAccess | undefined {
  const name = "x-ms-blob-public-access";
  const text = head.header(name);
  if (text === undefined || text === "") return undefined;
  const access = text.toLowerCase();
  if (access === "container" || access === "blob") return access;
  throw invalidHeader(name, text);
}

/**
 * Anonymous callers may read only what a container's public access opens to them.
 * @throws ServiceError ResourceNotFound, so that they do not learn what exists.
 */
function checkPublic(
  access: PublicAccess | undefined,
  wanted: PublicAccess,
  { verb }: Caller,
): void {
  if (access !== "container" && access !== wanted) throw refuseAnonymous(verb);
}

/** @throws ServiceError PublicAccessNotPermitted */
export function checkNotForbidden(allowsPublicAccess: boolean): void {
  if (!allowsPublicAccess) throw new ServiceError("PublicAccessNotPermitted");
}
