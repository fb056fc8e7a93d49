import type { ServiceError } from "@rowhouse/protocol/errors";
import type { ErrorFacts } from "../http/service.ts";
import { printErrorTime, tableErrorJson, tableErrorXml } from "../wire/error-body.ts";
import type { RequestHead, WireResponse } from "../wire/operation.ts";
import { contentTypeOf, levelForErrors } from "./negotiate.ts";
import { preferenceOf } from "./prefer.ts";
import { ODATA_HEADERS } from "./table-operation.ts";
import { overrides } from "./tunnelled-method.ts";

/**
 * Encodes an error in the form the request requires: OData JSON for tables and entities, XML for
 * access policies and service operations. For failed authentication, the form is the one the client
 * accepts.
 */
export function encodeTableError(error: ServiceError, facts: ErrorFacts): WireResponse {
  const { code, message, status } = error;
  const body = { code, message, requestId: facts.requestId, time: printErrorTime(facts.now) };
  const extra = ["x-ms-error-code", code, ...error.headers.flat()];
  const head = error.stage === "authentication" ? undefined : facts.head;
  const isXml = head
    ? head.location.resource === "service" ||
      head.query.get("comp") === "acl" ||
      code === "AtomFormatNotSupported"
    : !wantsJson(facts.accept);
  if (isXml) {
    const headers = ["Content-Type", "application/xml", ...extra];
    return { status, headers, body: tableErrorXml(body) };
  }
  if (!head) {
    const headers = ["Content-Type", "application/json", ...extra];
    return { status, headers, body: tableErrorJson(body) };
  }
  const headers = ["Content-Type", contentTypeOf(levelForErrors(head)), ...ODATA_HEADERS, ...extra];
  const preference = isCreation(head) ? preferenceOf(head) : undefined;
  if (preference) headers.push("Preference-Applied", preference);
  return { status, headers, body: tableErrorJson(body) };
}

/**
 * Whether this is Create Table or Insert Entity, the only operations with a preference; a POST may
 * tunnel another method.
 */
function isCreation(head: RequestHead): boolean {
  const { resource } = head.location;
  return (
    head.verb === "POST" &&
    (resource === "tables" || resource === "entities") &&
    !overrides(head.verb, head.header("x-http-method"))
  );
}

function wantsJson(accept: string | undefined): boolean {
  return accept?.toLowerCase().includes("application/json") ?? false;
}
