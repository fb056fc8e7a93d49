import { ServiceError } from "@rowhouse/protocol/errors";
import { queueAuth } from "../auth/dialect.ts";
import { NEWEST_VERSION, versionOf } from "../auth/version.ts";
import {
  getServiceProperties,
  getServiceStats,
  setServiceProperties,
} from "../catalog/service-operations.ts";
import { storedPolicy } from "../catalog/stored-policy.ts";
import type { Service } from "../http/service.ts";
import { encodeStorageError, refuseRoute } from "../http/storage-refusals.ts";
import { withContentMd5 } from "../wire/content-md5.ts";
import type { AnyOperation, RequestHead } from "../wire/operation.ts";
import { invalidParameter } from "../wire/query-parameters.ts";
import { QUEUE_DOCUMENTS } from "../xml/document-rules.ts";
import { clearMessages } from "./clear-messages.ts";
import { createQueue } from "./create-queue.ts";
import { deleteMessage } from "./delete-message.ts";
import { deleteQueue } from "./delete-queue.ts";
import { getMessages } from "./get-messages.ts";
import { listQueues } from "./list-queues.ts";
import { locateQueue, queueMethodOf } from "./locate.ts";
import { peekMessages } from "./peek-messages.ts";
import { putMessage } from "./put-message.ts";
import { getQueueAcl, setQueueAcl } from "./queue-acl.ts";
import { getQueueMetadata, setQueueMetadata } from "./queue-metadata.ts";
import type { QueueContext } from "./queue-operation.ts";
import { updateMessage } from "./update-message.ts";

/** All operations of the Queue service. Routing, permissions, logs and metrics follow from this list. */
export const QUEUE_OPERATIONS: readonly AnyOperation<QueueContext>[] = [
  listQueues,
  createQueue,
  deleteQueue,
  getQueueMetadata,
  setQueueMetadata,
  getQueueAcl,
  setQueueAcl,
  putMessage,
  getMessages,
  peekMessages,
  updateMessage,
  deleteMessage,
  clearMessages,
  getServiceProperties("GetQueueServiceProperties", QUEUE_DOCUMENTS),
  setServiceProperties("SetQueueServiceProperties", QUEUE_DOCUMENTS),
  getServiceStats("GetQueueServiceStats"),
].map(withContentMd5);

/** The Queue service, ready to be served by a request pipeline. */
export function queueService(context: QueueContext): Service<QueueContext> {
  return {
    name: "queue",
    product: "Rowhouse-Queue/1.0",
    operations: QUEUE_OPERATIONS,
    context,
    dialect: queueAuth,
    hasSecondary: false,
    versionForUnauthenticated: NEWEST_VERSION,
    starCredentials: true,
    locate: locateQueue,
    methodOf: queueMethodOf,
    versionOf: (head) => versionOf(head, queueAuth),
    refuse,
    encodeError: encodeStorageError,
    corsRules: (account, now) => context.properties.corsRules(account, now),
    storedPolicy: (address) => storedPolicy(context.catalog, address),
  };
}

function refuse(head: RequestHead, method: string): ServiceError {
  const { resource } = head.location;
  if (resource === "unknown restype") {
    const reason = "service is the only type there is.";
    return invalidParameter("restype", head.query.get("restype") ?? "", reason);
  }
  // User delegation keys need bearer tokens, which queues do not accept.
  const comp = head.query.get("comp")?.toLowerCase();
  if (resource === "service" && comp === "userdelegationkey" && method === "POST") {
    return new ServiceError("NotImplemented");
  }
  return refuseRoute(QUEUE_OPERATIONS, head, method);
}
