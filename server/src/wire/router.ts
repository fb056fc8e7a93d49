import type { Route, WireRequest } from "./operation.ts";

/** What a request is routed by. */
type Routed = Pick<WireRequest, "method" | "location" | "query" | "header">;

interface Slot<Operation> {
  any: Operation | undefined;
  withIfMatch: Operation | undefined;
  withoutIfMatch: Operation | undefined;
}

/** Finds the operation for a request by one table lookup. */
export class Router<Operation extends { readonly route: Route<string> }> {
  /**
   * By resource, then by method and `comp`. Most operations have no `comp`, and two short lookups beat
   * building a key.
   */
  readonly #resources = new Map<string, Map<string, Slot<Operation>>>();
  readonly #methods = new Map<string, string[]>();

  constructor(operations: readonly Operation[]) {
    for (const operation of operations) this.#add(operation);
  }

  find(request: Routed): Operation | undefined {
    const { method, location } = request;
    const comp = compOf(request);
    const slots = this.#resources.get(location.resource);
    const slot = slots?.get(comp === "" ? method : `${method} ${comp}`);
    return slot?.any ?? (request.header("if-match") ? slot?.withIfMatch : slot?.withoutIfMatch);
  }

  /** The methods that operations serve there; empty when there are none. */
  methodsOf(request: Routed): readonly string[] {
    return this.#methods.get(`${request.location.resource} ${compOf(request)}`) ?? [];
  }

  #add(operation: Operation): void {
    const { method, resource, comp = "", ifMatch } = operation.route;
    const slots = this.#resources.get(resource) ?? new Map<string, Slot<Operation>>();
    this.#resources.set(resource, slots);
    const key = comp === "" ? method : `${method} ${comp}`;
    const slot = slots.get(key) ?? {
      any: undefined,
      withIfMatch: undefined,
      withoutIfMatch: undefined,
    };
    slots.set(key, slot);
    const place =
      ifMatch === undefined ? "any" : ifMatch === "present" ? "withIfMatch" : "withoutIfMatch";
    if (slot[place]) throw new Error(`Two operations are registered for "${key}" of ${resource}.`);
    slot[place] = operation;
    const methods = this.#methods.get(`${resource} ${comp}`) ?? [];
    if (!methods.includes(method)) methods.push(method);
    this.#methods.set(`${resource} ${comp}`, methods);
  }
}

function compOf({ query }: Routed): string {
  return query.get("comp")?.toLowerCase() ?? "";
}
