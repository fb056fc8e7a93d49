import { timingSafeEqual } from "node:crypto";
import type { Pages } from "../http/pages.ts";
import type { RawRequest } from "../http/raw-request.ts";
import type { WireResponse } from "../wire/operation.ts";

/** A page whose content is built on request. */
export interface Page {
  readonly contentType: string;
  /** Whether the page is readable without a token; see `insightPages`. */
  readonly open: boolean;
  print(query: URLSearchParams): string;
}

export interface PagesOptions {
  /** By path, such as `/rowhouse/partitions`. */
  readonly pages: ReadonlyMap<string, Page>;
  /** Token required for pages that are not open. Not empty. */
  readonly token: string;
  /** Called before a page is printed. */
  readonly prepare?: () => void;
}

/**
 * Serves pages next to a service. Pages that show keys, which are data, require a token, even from this
 * machine: such a request may be forwarded by a proxy that does not say so.
 */
export function insightPages({ pages, token, prepare }: PagesOptions): Pages {
  // Nearly every request is for no page. One character of the target reveals that; cutting and looking up the
  // target takes 0.2 µs.
  const beginnings = new Uint8Array(2 ** 16);
  for (const path of pages.keys()) beginnings[path.charCodeAt(1)] = 1;
  return (request) => {
    const { target } = request;
    if (beginnings[target.charCodeAt(1)] !== 1) return undefined;
    const mark = target.indexOf("?");
    const page = pages.get(mark < 0 ? target : target.slice(0, mark));
    if (page === undefined) return undefined;
    return () => {
      const query = new URLSearchParams(mark < 0 ? "" : target.slice(mark + 1));
      if (!page.open && !isShown(token, request, query)) {
        return answer(
          403,
          "text/plain",
          "This page requires the server's insight token: ?token=TOKEN or Authorization: Bearer TOKEN.\n",
        );
      }
      prepare?.();
      return answer(200, page.contentType, page.print(query));
    };
  };
}

export function jsonPage(data: (query: URLSearchParams) => unknown): Page {
  return {
    contentType: "application/json",
    open: false,
    print: (query) => `${JSON.stringify(data(query), null, 2)}\n`,
  };
}

/** Programs pass the token in a header, people in a URL. */
function isShown(token: string, { headers }: RawRequest, query: URLSearchParams): boolean {
  return (
    isSame(headers.get("authorization") ?? "", `Bearer ${token}`) ||
    isSame(query.get("token") ?? "", token)
  );
}

function isSame(given: string, wanted: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(wanted)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function answer(status: number, contentType: string, body: string): WireResponse {
  return {
    status,
    headers: [
      ...["Content-Type", contentType, "Cache-Control", "no-store"],
      ...["X-Content-Type-Options", "nosniff"],
    ],
    body,
  };
}
