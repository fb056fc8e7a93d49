import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import { ServiceError } from "@rowhouse/protocol/errors";
import { whenReady } from "../awaitable.ts";
import { parseAccessPolicies, printAccessPolicies } from "../xml/access-policies.ts";
import { QUEUE_DOCUMENTS } from "../xml/document-rules.ts";
import { xmlResponse } from "../xml/print-xml.ts";
import type { QueueName } from "./message-store.ts";
import { type QueueOperation, queueNameOf } from "./queue-operation.ts";

/** Only the account's keys may read or change policies: policies decide what shared access signatures may do. */
const ACCESS = { resourceType: "c", accountSas: [], serviceSas: [], bearer: "never" } as const;

/** Get Queue ACL: the stored access policies. Fails with QueueNotFound (404). */
export const getQueueAcl: QueueOperation<QueueName, readonly AccessPolicy[]> = {
  name: "GetQueueACL",
  route: { method: "GET", resource: "queue", comp: "acl" },
  access: ACCESS,
  decode: queueNameOf,

  run({ catalog }, { account, name }) {
    return whenReady(catalog.find(account, name), (named) => {
      if (!named) throw new ServiceError("QueueNotFound");
      return named.value.policies;
    });
  },

  encode: (policies) => xmlResponse(200, printAccessPolicies(policies)),
};

interface SetQueueAclInput {
  readonly queue: QueueName;
  readonly policies: readonly AccessPolicy[];
}

/** Set Queue ACL: replaces all stored access policies in one step. Fails with QueueNotFound (404). */
export const setQueueAcl: QueueOperation<SetQueueAclInput, void> = {
  name: "SetQueueACL",
  route: { method: "PUT", resource: "queue", comp: "acl" },
  access: ACCESS,
  body: "buffer",

  decode(request) {
    const queue = queueNameOf(request);
    return { queue, policies: parseAccessPolicies(request.body, QUEUE_DOCUMENTS) };
  },

  async run({ catalog }, { queue, policies }) {
    const changed = await catalog.update(queue.account, queue.name, (value) => ({
      ...value,
      policies,
    }));
    if (!changed) throw new ServiceError("QueueNotFound");
  },

  encode: () => ({ status: 204, headers: [] }),
};
