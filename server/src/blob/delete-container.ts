import { ServiceError } from "@rowhouse/protocol/errors";
import type { BlobOperation } from "./blob-operation.ts";
import { type Conditions, checkWriteConditions, dateConditions } from "./conditions.ts";
import { type ContainerInput, containerInputOf } from "./container-properties.ts";
import { checkLeaseForWrite } from "./lease.ts";

interface DeleteContainerInput extends ContainerInput {
  readonly conditions: Conditions;
}

/**
 * Delete Container, with all its blobs, even leased ones. Fails with ContainerNotFound (404). The name can be
 * reused immediately; the blobs are freed in the background.
 */
export const deleteContainer: BlobOperation<DeleteContainerInput, void> = {
  name: "DeleteContainer",
  route: { method: "DELETE", resource: "container" },
  access: { resourceType: "c", accountSas: ["d"], serviceSas: [], bearer: "write" },

  decode: (request) => ({ ...containerInputOf(request), conditions: dateConditions(request) }),

  async run({ catalog, reaper }, { caller, name, leaseId, conditions }) {
    const { account, arrivedAt } = caller;
    const removed = await catalog.remove(account.name, name, ({ value }) => {
      checkLeaseForWrite(value.lease, leaseId, arrivedAt, "container");
      checkWriteConditions(conditions, value.modified);
    });
    if (!removed) throw new ServiceError("ContainerNotFound");
    reaper.wake();
  },

  encode: () => ({ status: 202, headers: [] }),
};
