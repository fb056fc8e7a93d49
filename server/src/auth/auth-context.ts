import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import type { Awaitable } from "../awaitable.ts";
import type { Account } from "../wire/account.ts";
import type { BearerVerifier } from "./bearer.ts";

/** The operator's settings for authentication. */
export interface AuthRules {
  /** Whether a signed date must be near the server's. Off only to replay recorded requests. */
  readonly checkDate: boolean;
  /** May become another one while the server runs, so each request asks. */
  readonly bearer: BearerVerifier | undefined;
}

/** The dependencies of authentication, which reads no storage itself. */
export interface AuthContext extends AuthRules {
  /** The policy with this id on a table, queue or container; undefined if either does not exist. */
  storedPolicy(address: PolicyAddress): Awaitable<AccessPolicy | undefined>;
}

export function withPolicies(
  rules: AuthRules,
  storedPolicy: AuthContext["storedPolicy"],
): AuthContext {
  return {
    checkDate: rules.checkDate,
    get bearer() {
      return rules.bearer;
    },
    storedPolicy,
  };
}

export interface PolicyAddress {
  readonly account: Account;
  /** The name of the table (in lower case), queue or container. */
  readonly name: string;
  readonly id: string;
}
