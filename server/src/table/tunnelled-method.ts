import { ServiceError } from "@rowhouse/protocol/errors";

const TUNNELLED = new Set(["MERGE", "PATCH", "PUT", "DELETE"]);

/**
 * The method of a request, which a POST may override with `X-HTTP-Method`. PATCH is a later name of
 * MERGE.
 * @param tunnelled the value of that header, or the list of values if it was repeated
 * @throws ServiceError XMethodNotUsingPost, XMethodIncorrectCount or XMethodIncorrectValue
 */
export function methodOf(verb: string, tunnelled: string | undefined): string {
  let method = verb;
  if (tunnelled !== undefined) {
    if (verb !== "POST") throw new ServiceError("XMethodNotUsingPost");
    if (tunnelled.includes(",")) throw new ServiceError("XMethodIncorrectCount");
    method = tunnelled.trim().toUpperCase();
    if (!TUNNELLED.has(method)) throw new ServiceError("XMethodIncorrectValue");
  }
  return method === "PATCH" ? "MERGE" : method;
}
