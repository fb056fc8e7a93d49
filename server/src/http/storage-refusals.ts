import { ServiceError } from "@rowhouse/protocol/errors";
import { printErrorTime, storageErrorXml } from "../wire/error-body.ts";
import type { AnyOperation, RequestHead, WireResponse } from "../wire/operation.ts";
import { invalidParameter, missingParameter } from "../wire/query-parameters.ts";
import type { ErrorFacts } from "./service.ts";

/** How Queue and Blob refuse requests; see `Service.encodeError` and `Service.refuse`. */

/** A refusal as XML, with its code also in a header: after HEAD, clients see nothing else. */
export function encodeStorageError(error: ServiceError, facts: ErrorFacts): WireResponse {
  const { code, message, status, details } = error;
  return {
    status,
    headers: ["Content-Type", "application/xml", "x-ms-error-code", code, ...error.headers.flat()],
    body: storageErrorXml({
      code,
      message,
      details,
      requestId: facts.requestId,
      time: printErrorTime(facts.now),
    }),
  };
}

/**
 * Why no operation serves the request: the resource never accepts this method (405), or `comp` is missing or
 * unknown (400).
 */
export function refuseRoute(
  operations: readonly Pick<AnyOperation<unknown>, "route">[],
  head: RequestHead,
  method: string,
): ServiceError {
  const here = operations.filter(({ route }) => route.resource === head.location.resource);
  const comp = head.query.get("comp");
  const named = here.filter(({ route }) => (route.comp ?? "") === (comp?.toLowerCase() ?? ""));
  const takesMethod = here.some(({ route }) => route.method === method);
  if (!takesMethod || (comp !== undefined && named.length > 0)) {
    const methods = (named.length > 0 ? named : here).map(({ route }) => route.method);
    // Some operations are routed by the verb plus a word; the verb alone is already in the list.
    const verbs = new Set(methods.filter((each) => !each.includes(" ")));
    return new ServiceError("UnsupportedHttpVerb", { headers: [["Allow", [...verbs].join(", ")]] });
  }
  if (comp === undefined) return missingParameter("comp");
  return invalidParameter("comp", comp, "The resource has no such component.");
}
