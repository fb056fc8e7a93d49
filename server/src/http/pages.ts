import type { Awaitable } from "../awaitable.ts";
import type { WireResponse } from "../wire/operation.ts";
import type { Handle } from "./lane-limits.ts";
import type { RawRequest } from "./raw-request.ts";
import type { RequestPipeline } from "./request-pipeline.ts";

/** Finds the page that a request names, as a function that builds it; undefined where the request names none. */
export type Pages = (request: RawRequest) => (() => Awaitable<WireResponse>) | undefined;

/**
 * Puts pages in front of a service. Account names cannot collide with the first segment of a page's path.
 * Where the host names the account, all paths belong to the account: `/metrics` is a table there.
 */
export function withPages(
  pipeline: Pick<RequestPipeline<unknown>, "handle" | "hostNamesAccount">,
  pages: Pages,
): Handle {
  return (request) => {
    const page = pages(request);
    if (page === undefined || pipeline.hostNamesAccount(request)) return pipeline.handle(request);
    if (request.verb === "GET" || request.verb === "HEAD") return page();
    return {
      status: 405,
      headers: ["Allow", "GET, HEAD", "Content-Type", "text/plain"],
      body: "Pages are read with GET.\n",
    };
  };
}

/** Joins several sets of pages; the first that has a page serves it. */
export function joinPages(all: readonly Pages[]): Pages {
  return (request) => {
    for (const pages of all) {
      const page = pages(request);
      if (page !== undefined) return page;
    }
    return undefined;
  };
}
