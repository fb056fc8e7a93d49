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
  /** What `Authorization: Bearer` must carry; undefined: nobody but this machine is answered. */
  readonly token?: string | undefined;
  /** Called before a page is printed. */
  readonly prepare?: () => void;
}

/**
 * Serves pages beside a service. Keys are data, so pages that show them are for this machine alone
 * unless a token is agreed on. "This machine" is a loopback client that addresses a loopback host and
 * was forwarded by nobody: neither a proxy's callers nor a web page that renamed its host count.
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
      if (!page.open && !mayRead(request, token)) {
        return refusal(
          403,
          token === undefined
            ? "This page is for this machine alone; start the server with an insight token to read it from elsewhere."
            : "This page asks for the server's insight token: Authorization: Bearer TOKEN.",
        );
      }
      prepare?.();
      const query = new URLSearchParams(mark < 0 ? "" : target.slice(mark + 1));
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

const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i;
const LOOPBACK_CLIENT = /^(?:::1|127(?:\.\d{1,3}){3})$/;
const FORWARDED = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

function mayRead({ headers, remoteAddress }: RawRequest, token: string | undefined): boolean {
  if (token !== undefined) return isSame(headers.get("authorization") ?? "", `Bearer ${token}`);
  return (
    LOOPBACK_CLIENT.test(remoteAddress) &&
    LOOPBACK_HOST.test(headers.get("host") ?? "") &&
    FORWARDED.every((name) => headers.get(name) === undefined)
  );
}

function isSame(given: string, wanted: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(wanted)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function refusal(status: number, message: string): WireResponse {
  return answer(status, "text/plain", `${message}\n`);
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
