import { ServiceError } from "@rowhouse/protocol/errors";
import { type Metadata, readMetadata } from "../wire/metadata.ts";
import type { RequestHead } from "../wire/operation.ts";
import { checkNotForbidden, publicAccessOf } from "./blob-access.ts";
import { type BlobOperation, containerNameOf } from "./blob-operation.ts";
import type { PublicAccess } from "./container-value.ts";
import { validatorHeaders } from "./validators.ts";

interface CreateContainerInput {
  readonly account: string;
  readonly name: string;
  readonly metadata: Metadata;
  readonly publicAccess: PublicAccess | undefined;
}

/** Create Container. Fails with ContainerAlreadyExists (409), whatever the metadata. */
export const createContainer: BlobOperation<CreateContainerInput, number> = {
  name: "CreateContainer",
  route: { method: "PUT", resource: "container" },
  access: { resourceType: "c", accountSas: ["c", "w"], serviceSas: [], bearer: "write" },

  decode(request) {
    refuseEncryptionScope(request);
    return {
      account: request.account.name,
      name: containerNameOf(request),
      metadata: readMetadata(request),
      publicAccess: publicAccessOf(request),
    };
  },

  async run({ allowsPublicAccess, blobs, catalog }, { account, name, ...given }) {
    if (given.publicAccess !== undefined) checkNotForbidden(allowsPublicAccess);
    const modified = blobs.now();
    const { created } = await catalog.create(account, name, {
      ...given,
      modified,
      policies: [],
    });
    if (!created) throw new ServiceError("ContainerAlreadyExists");
    return modified;
  },

  encode: (modified) => ({ status: 201, headers: validatorHeaders(modified) }),
};

/** Accepts the name of the only scope there is. @throws ServiceError NotImplemented for others. */
function refuseEncryptionScope(head: RequestHead): void {
  const scope = head.header("x-ms-default-encryption-scope") ?? "$account-encryption-key";
  const denies = head.header("x-ms-deny-encryption-scope-override") ?? "false";
  if (scope !== "$account-encryption-key" || denies.toLowerCase() !== "false") {
    throw new ServiceError("NotImplemented");
  }
}
