import type { AnyOperation } from "../operation.ts";

interface Slot<Context> {
  any: AnyOperation<Context> | undefined;
  withIfMatch: AnyOperation<Context> | undefined;
  withoutIfMatch: AnyOperation<Context> | undefined;
}

/** Finds the operation for a request by one table lookup. */
export class Router<Context> {
  readonly #slots = new Map<string, Slot<Context>>();
  readonly #methods = new Map<string, string[]>();

  constructor(operations: readonly AnyOperation<Context>[]) {
    for (const operation of operations) this.#add(operation);
  }

  find(
    method: string,
    resource: string,
    comp: string,
    hasIfMatch: boolean,
  ): AnyOperation<Context> | undefined {
    const slot = this.#slots.get(`${method} ${resource} ${comp}`);
    return slot?.any ?? (hasIfMatch ? slot?.withIfMatch : slot?.withoutIfMatch);
  }

  /** The methods some operation listens to there; empty when nothing does. */
  methodsOf(resource: string, comp: string): readonly string[] {
    return this.#methods.get(`${resource} ${comp}`) ?? [];
  }

  #add(operation: AnyOperation<Context>): void {
    const { method, resource, comp = "", ifMatch } = operation.route;
    const key = `${method} ${resource} ${comp}`;
    const slot = this.#slots.get(key) ?? {
      any: undefined,
      withIfMatch: undefined,
      withoutIfMatch: undefined,
    };
    const place =
      ifMatch === undefined ? "any" : ifMatch === "present" ? "withIfMatch" : "withoutIfMatch";
    if (slot[place]) throw new Error(`Two operations listen at "${key}".`);
    slot[place] = operation;
    this.#slots.set(key, slot);
    const methods = this.#methods.get(`${resource} ${comp}`) ?? [];
    if (!methods.includes(method)) methods.push(method);
    this.#methods.set(`${resource} ${comp}`, methods);
  }
}
