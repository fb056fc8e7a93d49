import { ServiceError } from "@rowhouse/protocol/errors";
import { refuseStranger } from "../auth/authorize.ts";
import type { WireRequest } from "../operation.ts";
import type { BlobContext } from "./blob-operation.ts";
import type { BlobName, BlobState } from "./blob-store.ts";
import type { PublicAccess } from "./container-value.ts";

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
export function assertMayReplace(request: WireRequest, { record }: BlobState): void {
  if (record.blob !== undefined && !grants(request, "w")) {
    throw new ServiceError("UnauthorizedBlobOverwrite");
  }
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
