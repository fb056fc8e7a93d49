import type { Awaitable } from "../awaitable.ts";

/** Every request passes it after routing and authorization, before its operation runs. */
export interface Gate {
  /** @throws ServiceError to refuse the request; a promise delays it. */
  enter(facts: GateFacts): Awaitable<void>;
}

export interface GateFacts {
  /** The operation's name in logs and metrics. */
  readonly operation: string;
  /** The table, queue or container; "" when the resource has none. */
  readonly resource: string;
}
