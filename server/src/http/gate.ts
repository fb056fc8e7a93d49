import type { Awaitable } from "../awaitable.ts";

/** What every request passes once it is known what it asks for, before anything is done. */
export interface Gate {
  /** @throws ServiceError to refuse; a promise holds the request up. */
  enter(facts: GateFacts): Awaitable<void>;
}

export interface GateFacts {
  /** The operation's name in logs and metrics. */
  readonly operation: string;
  /** The table, queue or container; "" when the resource has none. */
  readonly resource: string;
}
