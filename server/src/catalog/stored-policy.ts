import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import { type Awaitable, whenReady } from "../awaitable.ts";
import type { Catalog } from "./catalog.ts";

interface WithPolicies {
  readonly policies: readonly AccessPolicy[];
}

/** Where a SAS says its policy stands; `name` is the table's, queue's or container's. */
interface Address {
  readonly account: { readonly name: string };
  readonly name: string;
  readonly id: string;
}

/** The policy a SAS refers to; undefined when it, or what it should stand on, is missing. */
export function storedPolicy<Value extends WithPolicies>(
  catalog: Catalog<Value>,
  { account, name, id }: Address,
): Awaitable<AccessPolicy | undefined> {
  return whenReady(catalog.find(account.name, name), (named) =>
    named?.value.policies.find((policy) => policy.id === id),
  );
}
