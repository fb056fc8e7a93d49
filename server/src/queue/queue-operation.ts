import { LIMITS } from "@rowhouse/protocol/limits";
import type { Catalog } from "../catalog/catalog.ts";
import type { Reaper } from "../catalog/reaper.ts";
import type { ServicePropertiesStore } from "../catalog/service-properties-store.ts";
import type { Operation, WireRequest } from "../wire/operation.ts";
import type { Query } from "../wire/query.ts";
import { integerParameter } from "../wire/query-parameters.ts";
import { checkResourceName } from "../wire/resource-name.ts";
import type { QueueResource } from "./locate.ts";
import type { MessageStore, QueueName, QueueValue } from "./message-store.ts";

/** The context of all queue operations. */
export interface QueueContext {
  readonly catalog: Catalog<QueueValue>;
  readonly messages: MessageStore;
  readonly properties: ServicePropertiesStore;
  readonly reaper: Reaper<QueueValue>;
}

export type QueueOperation<Input, Output> = Operation<QueueContext, Input, Output, QueueResource>;

/**
 * The queue a request names. Every operation calls it, so that only valid names are ever looked up.
 * @throws ServiceError OutOfRangeInput or InvalidResourceName.
 */
export function queueNameOf({ account, location }: WireRequest): QueueName {
  checkResourceName(location.name);
  return { account: account.name, name: location.name };
}

/** In seconds; undefined where the request has none. @throws ServiceError OutOfRangeQueryParameterValue */
export function visibilityTimeoutOf(query: Query, min: 0 | 1): number | undefined {
  const bounds = { min, max: LIMITS.visibilityTimeoutSecondsMax };
  return integerParameter(query, "visibilitytimeout", bounds);
}
