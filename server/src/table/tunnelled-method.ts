import { ServiceError } from "@rowhouse/protocol/errors";

const TUNNELLED = new Set(["MERGE", "PUT", "DELETE"]);

/**
 * The method of a request, which a POST may override with `X-HTTP-Method`. On another verb the header may only
 * repeat it, as the older Java client does in batches. PATCH is a later name of MERGE.
 * @param tunnelled the value of that header, or the list of values if it was repeated
 * @throws ServiceError XMethodNotUsingPost, XMethodIncorrectCount or XMethodIncorrectValue
 */
export function methodOf(verb: string, tunnelled: string | undefined): string {
  // Of nearly all requests.
  if (tunnelled === undefined) return verb === "PATCH" ? "MERGE" : verb;
  if (!overrides(verb, tunnelled)) return canonical(verb);
  if (verb !== "POST") throw new ServiceError("XMethodNotUsingPost");
  if (tunnelled.includes(",")) throw new ServiceError("XMethodIncorrectCount");
  const method = canonical(tunnelled);
  if (!TUNNELLED.has(method)) throw new ServiceError("XMethodIncorrectValue");
  return method;
}

/** Whether `X-HTTP-Method` was sent with something other than the verb itself. */
export function overrides(verb: string, tunnelled: string | undefined): tunnelled is string {
  return tunnelled !== undefined && canonical(tunnelled) !== canonical(verb);
}

function canonical(method: string): string {
  const name = method.trim().toUpperCase();
  return name === "PATCH" ? "MERGE" : name;
}
