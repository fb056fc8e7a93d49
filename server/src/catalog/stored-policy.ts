import type { AccessPolicy } from "@rowhouse/protocol/access-policy";
import { type Awaitable, whenReady } from "../awaitable.ts";
import type { Catalog } from "./catalog.ts";

interface WithPolicies {
  readonly policies: readonly AccessPolicy[];
}

/** The policy that a SAS names; `name` is that of the table, queue or container. */
interface Address {
  readonly account: { readonly name: string };
  readonly name: string;
  readonly id: string;
}

/** The policy that a SAS refers to; undefined if it, or the resource that should hold it, is missing. */
export function storedPolicy<Value extends WithPolicies>(
  catalog: Catalog<Value>,
  { account, name, id }: Address,
): Awaitable<AccessPolicy | undefined> {
  return whenReady(catalog.find(account.name, name), (named) =>
    named?.value.policies.find((policy) => policy.id === id),
  );
}
