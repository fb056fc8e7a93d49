import { ServiceError } from "@rowhouse/protocol/errors";
import { type Metadata, metadataHeaders, readMetadata } from "../wire/metadata.ts";
import type { Caller, WireRequest } from "../wire/operation.ts";
import { findForCaller } from "./blob-access.ts";
import { type BlobContext, type BlobOperation, containerNameOf } from "./blob-operation.ts";
import { type Conditions, checkWriteConditions, dateConditions } from "./conditions.ts";
import type { ContainerValue } from "./container-value.ts";
import { checkLeaseForRead, leaseHeaders } from "./lease.ts";
import { leaseIdOf } from "./lease-request.ts";
import { nextModified, validatorHeaders } from "./validators.ts";

export interface ContainerInput {
  readonly caller: Caller;
  readonly name: string;
  readonly leaseId: string | undefined;
}

const READ = {
  resourceType: "c",
  accountSas: ["r"],
  serviceSas: [],
  bearer: "read",
  anonymous: true,
} as const;

/** Get Container Properties. Fails with ContainerNotFound (404). */
export const getContainerProperties: BlobOperation<ContainerInput, ContainerValue> = {
  name: "GetContainerProperties",
  route: { method: "GET", resource: "container" },
  access: READ,
  decode: containerInputOf,
  run: readContainer,

  encode({ modified, lease, publicAccess, metadata }, { arrivedAt }) {
    const headers = [...validatorHeaders(modified), ...leaseHeaders(lease, arrivedAt)];
    if (publicAccess !== undefined) headers.push("x-ms-blob-public-access", publicAccess);
    headers.push("x-ms-has-immutability-policy", "false", "x-ms-has-legal-hold", "false");
    headers.push("x-ms-default-encryption-scope", "$account-encryption-key");
    headers.push("x-ms-deny-encryption-scope-override", "false");
    headers.push("x-ms-immutable-storage-with-versioning-enabled", "false");
    return { status: 200, headers: [...headers, ...metadataHeaders(metadata)] };
  },
};

/** Get Container Metadata. Fails with ContainerNotFound (404). */
export const getContainerMetadata: BlobOperation<ContainerInput, ContainerValue> = {
  name: "GetContainerMetadata",
  route: { method: "GET", resource: "container", comp: "metadata" },
  access: READ,
  decode: containerInputOf,
  run: readContainer,

  encode: ({ modified, metadata }) => ({
    status: 200,
    headers: [...validatorHeaders(modified), ...metadataHeaders(metadata)],
  }),
};

interface SetContainerMetadataInput extends ContainerInput {
  readonly metadata: Metadata;
  readonly conditions: Conditions;
}

/** Set Container Metadata: replaces all metadata. Fails with ContainerNotFound (404). */
export const setContainerMetadata: BlobOperation<SetContainerMetadataInput, number> = {
  name: "SetContainerMetadata",
  route: { method: "PUT", resource: "container", comp: "metadata" },
  access: { resourceType: "c", accountSas: ["w"], serviceSas: [], bearer: "write" },

  decode: (request) => ({
    ...containerInputOf(request),
    metadata: readMetadata(request),
    // This operation supports only this one of the two dates.
    conditions: { ...dateConditions(request), ifUnmodifiedSince: undefined },
  }),

  async run({ blobs, catalog }, { caller, name, metadata, leaseId, conditions }) {
    const { account, arrivedAt } = caller;
    const changed = await catalog.update(account.name, name, (value) => {
      checkLeaseForRead(value.lease, leaseId, arrivedAt, "container");
      checkWriteConditions(conditions, value.modified);
      return { ...value, metadata, modified: nextModified(blobs.now(), value.modified) };
    });
    if (!changed) throw new ServiceError("ContainerNotFound");
    return changed.value.modified;
  },

  encode: (modified) => ({ status: 200, headers: validatorHeaders(modified) }),
};

export function containerInputOf(request: WireRequest): ContainerInput {
  return { caller: request, name: containerNameOf(request), leaseId: leaseIdOf(request) };
}

/** @throws ServiceError ContainerNotFound, 412 of leases; see `findForCaller`. */
export async function readContainer(
  context: BlobContext,
  { caller, name, leaseId }: ContainerInput,
): Promise<ContainerValue> {
  const { value } = await findForCaller(context, name, caller);
  checkLeaseForRead(value.lease, leaseId, caller.arrivedAt, "container");
  return value;
}
