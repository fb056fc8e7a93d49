import { timingSafeEqual } from "node:crypto";
import type { Pages } from "../http/pages.ts";
import type { RawRequest } from "../http/raw-request.ts";
import type { WireResponse } from "../operation.ts";

/** A page's content, made when it is asked for. */
export interface Page {
  readonly contentType: string;
  /** Whether anybody who reaches the port may read it; else see `insightPages`. */
  readonly open: boolean;
  print(query: URLSearchParams): string;
}

export interface PagesOptions {
  /** By path, such as `/rowhouse/partitions`. */
  readonly pages: ReadonlyMap<string, Page>;
  /** What callers of pages that are not open must know. Not empty. */
  readonly token: string;
  /** Called before a page is printed. */
  readonly prepare?: () => void;
}

/**
 * Serves pages beside a service. Keys are data, so pages that show them ask for a token, of this machine
 * too: what comes from it may be forwarded by a proxy that does not say so.
 */
export function insightPages({ pages, token, prepare }: PagesOptions): Pages {
  // Nearly every request is for no page: a character tells, where cutting and looking up a target
  // takes 0.2 µs.
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
          "This page asks for the server's insight token: ?token=TOKEN, or Authorization: Bearer TOKEN.\n",
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

/** For programs in a header, for people in a URL to click on. */
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
