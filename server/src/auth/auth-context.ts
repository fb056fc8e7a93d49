import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import type { Awaitable } from "../awaitable.ts";
import type { Clock } from "../clock.ts";
import type { Account } from "./accounts.ts";
import type { BearerVerifier } from "./bearer.ts";

/** What authentication needs from around it. It reads no storage itself. */
export interface AuthContext {
  readonly clock: Clock;
  /** Off only to replay recorded requests: whether a signed date must be near the server's. */
  readonly checkDate: boolean;
  readonly bearer: BearerVerifier | undefined;
  /** The policy of this name on a table, queue or container; undefined when either is missing. */
  storedPolicy(address: PolicyAddress): Awaitable<AccessPolicy | undefined>;
}

export interface PolicyAddress {
  readonly account: Account;
  /** Of the table (lower case), queue or container. */
  readonly name: string;
  readonly id: string;
}
