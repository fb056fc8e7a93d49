import { ServiceError } from "@rowhouse/protocol/errors";
import type { Caller } from "../wire/operation.ts";
import { type BlobOperation, containerNameOf } from "./blob-operation.ts";
import { type Conditions, checkWriteConditions, dateConditions } from "./conditions.ts";
import { actOnLease } from "./lease.ts";
import {
  encodeLease,
  type LeaseOutcome,
  type LeaseRequest,
  leaseAccess,
  leaseRequestOf,
  withId,
} from "./lease-request.ts";

interface LeaseContainerInput {
  readonly caller: Caller;
  readonly name: string;
  readonly asked: LeaseRequest;
  readonly conditions: Conditions;
}

/** Lease Container: lets only the lease holder delete it. Changes neither ETag nor Last-Modified. */
export const leaseContainer: BlobOperation<LeaseContainerInput, LeaseOutcome> = {
  name: "LeaseContainer",
  route: { method: "PUT", resource: "container", comp: "lease" },
  access: leaseAccess("c"),

  decode: (request) => ({
    caller: request,
    name: containerNameOf(request),
    asked: leaseRequestOf(request),
    conditions: dateConditions(request),
  }),

  async run({ catalog }, { caller, name, asked, conditions }) {
    const action = withId(asked);
    const changed = await catalog.update(caller.account.name, name, (value) => {
      checkWriteConditions(conditions, value.modified);
      return { ...value, lease: actOnLease(value.lease, action, caller.arrivedAt) };
    });
    if (!changed) throw new ServiceError("ContainerNotFound");
    const { lease, modified } = changed.value;
    return { action: asked.action, lease, modified };
  },

  encode: encodeLease,
};
