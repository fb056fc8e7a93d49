import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import { type IfMatch, parseIfMatch } from "@rowhouse/protocol/etag";
import { listHeader } from "../wire/header-values.ts";
import type { RequestHead } from "../wire/operation.ts";

/** @throws ServiceError InvalidInput for a conditional header on a resource without an ETag. */
export function refuseConditions(request: Pick<RequestHead, "header">): void {
  if (request.header("if-match") !== undefined || request.header("if-none-match") !== undefined) {
    throw new ServiceError("InvalidInput", { message: ERROR_TEXTS.conditionsWithoutEtag });
  }
}

/**
 * The `If-Match` of a write to one entity; an empty header counts as absent.
 * @throws ServiceError InvalidInput for a malformed ETag and for `If-None-Match`.
 */
export function ifMatchOf(
  request: Pick<RequestHead, "header" | "rawHeaders">,
  verb: "PUT" | "DELETE",
): IfMatch | undefined {
  // Repeated headers become a list, which is not a valid ETag.
  const ifMatch = listHeader(request, "if-match");
  if (request.header("if-none-match") !== undefined) {
    const message =
      ifMatch !== undefined
        ? ERROR_TEXTS.bothConditions
        : verb === "PUT"
          ? ERROR_TEXTS.ifNoneMatchOnPut
          : ERROR_TEXTS.ifNoneMatchOnDelete;
    throw new ServiceError("InvalidInput", { message });
  }
  return ifMatch === undefined || ifMatch === "" ? undefined : parseIfMatch(ifMatch);
}
