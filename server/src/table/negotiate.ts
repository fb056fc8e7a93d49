import { ServiceError } from "@rowhouse/protocol/errors";
import type { RequestHead, WireRequest } from "../wire/operation.ts";

/** How much OData metadata a response contains; `nometadata` is the least. */
export type MetadataLevel = "nometadata" | "minimalmetadata" | "fullmetadata";

/** Older versions of the service support only Atom. */
const JSON_SINCE = "2013-08-15";

const CONTENT_TYPES: Record<MetadataLevel, string> = {
  nometadata: "application/json;odata=nometadata;streaming=true;charset=utf-8",
  minimalmetadata: "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
  fullmetadata: "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
};

export function contentTypeOf(level: MetadataLevel): string {
  return CONTENT_TYPES[level];
}

/**
 * The metadata level of a response with an OData body. `$format` takes precedence over `Accept`;
 * the first acceptable entry of a list applies. A missing header and `*` / `*` mean minimal, which
 * is kinder to curl than Atom.
 * @throws ServiceError AtomFormatNotSupported, JsonFormatNotSupported,
 * JsonVerboseFormatNotSupported or MediaTypeNotSupported.
 */
export function negotiateLevel(
  request: Pick<WireRequest, "header" | "query" | "version">,
): MetadataLevel {
  const wanted = request.query.get("$format") || request.header("accept");
  const level = KNOWN_ACCEPTS.get(wanted ?? "") ?? readAccept(wanted ?? "");
  if (level instanceof ServiceError) throw level;
  if (request.version < JSON_SINCE) throw new ServiceError("JsonFormatNotSupported");
  const dataServiceVersion =
    request.header("maxdataserviceversion") ?? request.header("dataserviceversion");
  if (dataServiceVersion !== undefined && /^\s*[12]\./.test(dataServiceVersion)) {
    throw new ServiceError("JsonFormatNotSupported");
  }
  return level;
}

/** The level of error bodies, which must be written in some form whatever the request asks for. */
export function levelForErrors(head: Pick<RequestHead, "header" | "query">): MetadataLevel {
  let format: string | undefined;
  try {
    format = head.query.get("$format");
  } catch {
    // A malformed query may be what the error is about.
  }
  const level = readAccept(format || head.header("accept") || "");
  return level instanceof ServiceError ? "minimalmetadata" : level;
}

/** The values that nearly all requests send, found without parsing. */
const KNOWN_ACCEPTS = new Map<string, MetadataLevel>([
  ["", "minimalmetadata"],
  ["*/*", "minimalmetadata"],
  ["application/json", "minimalmetadata"],
  ["application/json;odata=nometadata", "nometadata"],
  ["application/json;odata=minimalmetadata", "minimalmetadata"],
  ["application/json;odata=fullmetadata", "fullmetadata"],
]);

function readAccept(accept: string): MetadataLevel | ServiceError {
  let refusal: ServiceError | undefined;
  for (const entry of accept.toLowerCase().replace(/[ "]/g, "").split(",")) {
    const known = KNOWN_ACCEPTS.get(entry);
    if (known) return known;
    const [type, ...parameters] = entry.split(";");
    if (type === "*/*" || type === "application/*") return "minimalmetadata";
    if (type === "application/atom+xml") {
      refusal ??= new ServiceError("AtomFormatNotSupported");
      continue;
    }
    if (type !== "application/json") continue;
    const odata = parameters
      .find((parameter) => parameter.startsWith("odata="))
      ?.slice("odata=".length);
    switch (odata) {
      case undefined:
      case "minimalmetadata":
        return "minimalmetadata";
      case "nometadata":
      case "fullmetadata":
        return odata;
      case "verbose":
        refusal ??= new ServiceError("JsonVerboseFormatNotSupported");
    }
  }
  return refusal ?? new ServiceError("MediaTypeNotSupported");
}

/**
 * Checks that the body may be read as JSON; a body without a type may.
 * @throws ServiceError AtomFormatNotSupported or MediaTypeNotSupported
 */
export function checkJsonBody(request: Pick<RequestHead, "header">): void {
  const type = request.header("content-type");
  if (type === undefined || type === "application/json" || type === "") return;
  if (/^\s*application\/json\s*(;|$)/i.test(type)) return;
  throw new ServiceError(
    /^\s*application\/atom\+xml/i.test(type) ? "AtomFormatNotSupported" : "MediaTypeNotSupported",
  );
}
