import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import { ServiceError } from "@rowhouse/protocol/errors";
import { parseAccessPolicies, printAccessPolicies } from "../xml/access-policies.ts";
import { BLOB_DOCUMENTS } from "../xml/document-rules.ts";
import { xmlResponse } from "../xml/print-xml.ts";
import { checkNotForbidden, publicAccessOf } from "./blob-access.ts";
import type { BlobOperation } from "./blob-operation.ts";
import { type Conditions, checkWriteConditions, dateConditions } from "./conditions.ts";
import { type ContainerInput, containerInputOf, readContainer } from "./container-properties.ts";
import type { ContainerValue, PublicAccess } from "./container-value.ts";
import { checkLeaseForRead } from "./lease.ts";
import { nextModified, validatorHeaders } from "./validators.ts";

/** Only the account's keys may read or change policies: policies decide what shared access signatures may do. */
const ACCESS = { resourceType: "c", accountSas: [], serviceSas: [], bearer: "never" } as const;

/** Get Container ACL: the stored access policies and the public access level. */
export const getContainerAcl: BlobOperation<ContainerInput, ContainerValue> = {
  name: "GetContainerACL",
  route: { method: "GET", resource: "container", comp: "acl" },
  access: ACCESS,
  decode: containerInputOf,
  run: readContainer,

  encode({ modified, publicAccess, policies }) {
    const document = xmlResponse(200, printAccessPolicies(policies));
    const headers = [...document.headers, ...validatorHeaders(modified)];
    if (publicAccess !== undefined) headers.push("x-ms-blob-public-access", publicAccess);
    return { ...document, headers };
  },
};

interface SetContainerAclInput extends ContainerInput {
  readonly policies: readonly AccessPolicy[];
  readonly publicAccess: PublicAccess | undefined;
  readonly conditions: Conditions;
}

/** Set Container ACL: replaces the stored access policies and the public access level together. */
export const setContainerAcl: BlobOperation<SetContainerAclInput, number> = {
  name: "SetContainerACL",
  route: { method: "PUT", resource: "container", comp: "acl" },
  access: ACCESS,
  body: "buffer",

  decode(request) {
    return {
      ...containerInputOf(request),
      policies: parseAccessPolicies(request.body, BLOB_DOCUMENTS),
      publicAccess: publicAccessOf(request),
      conditions: dateConditions(request),
    };
  },

  async run({ allowsPublicAccess, blobs, catalog }, input) {
    const { caller, name, policies, publicAccess, leaseId, conditions } = input;
    const { account, arrivedAt } = caller;
    if (publicAccess !== undefined) checkNotForbidden(allowsPublicAccess);
    const changed = await catalog.update(account.name, name, (value) => {
      checkLeaseForRead(value.lease, leaseId, arrivedAt, "container");
      checkWriteConditions(conditions, value.modified);
      const modified = nextModified(blobs.now(), value.modified);
      return { ...value, policies, publicAccess, modified };
    });
    if (!changed) throw new ServiceError("ContainerNotFound");
    return changed.value.modified;
  },

  encode: (modified) => ({ status: 200, headers: validatorHeaders(modified) }),
};
