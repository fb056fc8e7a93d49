import type { BatchPart } from "@rowhouse/protocol/batch-mime";
import { Query } from "../http/query.ts";
import type { Location, WireRequest } from "../operation.ts";
import { locateTable } from "./locate.ts";

/**
 * A part of `$batch` as the request it stands for: its own method, URL and headers, and everything
 * else from the request around it, who asks above all. The path is read when somebody asks for it:
 * a wrong one is then that part's refusal, in the place where parts are refused.
 */
export function partRequest(outer: WireRequest, part: BatchPart): WireRequest {
  const { path, query } = splitUrl(part.url, outer);
  const header = (name: string) => part.headers.get(name);
  let location: Location | undefined;
  return {
    verb: part.method,
    method: methodOf(part),
    rawPath: path,
    query: new Query(query),
    header,
    rawHeaders: [],
    get location() {
      location ??= locateTable(path);
      return location;
    },
    baseUrl: outer.baseUrl,
    account: outer.account,
    secondary: outer.secondary,
    secure: outer.secure,
    remoteAddress: outer.remoteAddress,
    requestId: outer.requestId,
    arrivedAt: outer.arrivedAt,
    identity: outer.identity,
    version: outer.version,
    body: part.body,
    bodySource: undefined,
  };
}

function methodOf(part: BatchPart): string {
  const tunnelled = part.method === "POST" ? part.headers.get("x-http-method") : undefined;
  const method = (tunnelled ?? part.method).toUpperCase();
  return method === "PATCH" ? "MERGE" : method;
}

/** Clients write the URL whole (with any host), from the root, or bare; path-style keeps the account. */
function splitUrl(url: string, { baseUrl }: WireRequest): { path: string; query: string } {
  const mark = url.indexOf("?");
  const query = mark < 0 ? "" : url.slice(mark + 1);
  let path = mark < 0 ? url : url.slice(0, mark);
  const authority = /^https?:\/\/[^/]*/i.exec(path);
  if (authority) path = path.slice(authority[0].length);
  if (!path.startsWith("/")) return { path: `/${path}`, query };
  const accountSegment = baseUrl.slice(baseUrl.indexOf("/", "https://".length));
  if (accountSegment.startsWith("/") && path.startsWith(`${accountSegment}/`)) {
    path = path.slice(accountSegment.length);
  }
  return { path, query };
}
