import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import type { Awaitable } from "../awaitable.ts";
import type { Account } from "./accounts.ts";
import type { BearerVerifier } from "./bearer.ts";

/** What an operator decides of authentication. */
export interface AuthRules {
  /** Off only to replay recorded requests: whether a signed date must be near the server's. */
  readonly checkDate: boolean;
  readonly bearer: BearerVerifier | undefined;
}

/** What authentication needs from around it. It reads no storage itself. */
export interface AuthContext extends AuthRules {
  /** The policy of this name on a table, queue or container; undefined when either is missing. */
  storedPolicy(address: PolicyAddress): Awaitable<AccessPolicy | undefined>;
}

export interface PolicyAddress {
  readonly account: Account;
  /** Of the table (lower case), queue or container. */
  readonly name: string;
  readonly id: string;
}
