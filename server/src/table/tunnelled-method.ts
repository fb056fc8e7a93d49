import { ServiceError } from "@rowhouse/protocol/errors";

const TUNNELLED = new Set(["MERGE", "PATCH", "PUT", "DELETE"]);

/**
 * What a request is to do, which a POST may say in `X-HTTP-Method`. PATCH is MERGE by its later name.
 * @param tunnelled that header's value; of several headers the list of their values
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
