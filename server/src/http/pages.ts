import type { Awaitable } from "../awaitable.ts";
import type { WireResponse } from "../wire/operation.ts";
import type { Handle } from "./lane-limits.ts";
import type { RawRequest } from "./raw-request.ts";
import type { RequestPipeline } from "./request-pipeline.ts";

/** Below this path, everything is the server's own. An account cannot have a name that begins with `_`. */
export const OWN_PATH = "/_rowhouse/";

/** What the server itself answers on a service's port: a page, or an interface for programs. */
export interface Page {
  /** Such as `/_rowhouse/metrics`. With a slash at the end, it stands for every path that begins with it. */
  readonly path: string;
  /** By method; any other is refused with 405. HEAD is answered as GET, without the body. */
  readonly methods: Readonly<Partial<Record<PageMethod, AnswerPage>>>;
}

export type PageMethod = "GET" | "POST" | "PUT" | "DELETE";
export type AnswerPage = (request: PageRequest) => Awaitable<WireResponse>;

export interface PageRequest {
  readonly raw: RawRequest;
  /** What follows the page's path, up to the query, as sent. Empty unless the path ends with a slash. */
  readonly rest: string;
  readonly query: URLSearchParams;
}

export interface PagesOptions {
  readonly pages: readonly Page[];
  /** Told of what a page throws; the answer is then 500. */
  readonly onError: (error: unknown) => void;
}

/**
 * Puts pages in front of a service. Where the host names the account, all paths belong to the account:
 * `/healthz` is a table there. Every other path below `OWN_PATH` is answered here, if only with 404.
 */
export function withPages(
  pipeline: Pick<RequestPipeline<unknown>, "handle" | "hostNamesAccount">,
  { pages, onError }: PagesOptions,
): Handle {
  const exact = new Map(pages.map((page) => [page.path, page]));
  // The longest first: the explorer may own everything below a path in which another page has its own.
  const prefixes = pages
    .filter(({ path }) => path.endsWith("/"))
    .sort((a, b) => b.path.length - a.path.length);
  // Nearly every request is for no page. One character of the target reveals that; cutting and looking up the
  // target takes 0.2 µs.
  const beginnings = new Uint8Array(2 ** 16);
  for (const path of [OWN_PATH, ...exact.keys()]) beginnings[path.charCodeAt(1)] = 1;
  return (raw) => {
    const { target, verb } = raw;
    if (beginnings[target.charCodeAt(1)] !== 1) return pipeline.handle(raw);
    const mark = target.indexOf("?");
    const path = mark < 0 ? target : target.slice(0, mark);
    const page = exact.get(path) ?? prefixes.find((each) => path.startsWith(each.path));
    if ((!page && !path.startsWith(OWN_PATH)) || pipeline.hostNamesAccount(raw))
      return pipeline.handle(raw);
    if (!page) return textAnswer(404, "The server has no page of this name.\n");
    const method = verb === "HEAD" ? "GET" : verb;
    const answer = isPageMethod(method) ? page.methods[method] : undefined;
    if (!answer) return refusedMethod(page);
    const query = new URLSearchParams(mark < 0 ? "" : target.slice(mark + 1));
    return answered(answer, { raw, rest: path.slice(page.path.length), query }, onError);
  };
}

function isPageMethod(verb: string): verb is PageMethod {
  return verb === "GET" || verb === "POST" || verb === "PUT" || verb === "DELETE";
}

function refusedMethod({ methods }: Page): WireResponse {
  const allowed = Object.keys(methods).flatMap((each) => (each === "GET" ? [each, "HEAD"] : each));
  return textAnswer(405, `This page answers ${allowed.join(", ")}.\n`, [
    "Allow",
    allowed.join(", "),
  ]);
}

function answered(
  answer: AnswerPage,
  request: PageRequest,
  onError: (error: unknown) => void,
): Awaitable<WireResponse> {
  const failed = (error: unknown): WireResponse => {
    onError(error);
    return textAnswer(500, "The page failed; the server's log says why.\n");
  };
  try {
    const given = answer(request);
    return given instanceof Promise ? given.catch(failed) : given;
  } catch (error) {
    return failed(error);
  }
}

/** An answer of a page in plain words. */
export function textAnswer(
  status: number,
  text: string,
  headers: readonly string[] = [],
): WireResponse {
  return pageAnswer(status, "text/plain; charset=utf-8", text, headers);
}

export function jsonAnswer(status: number, value: unknown): WireResponse {
  return pageAnswer(status, "application/json", `${JSON.stringify(value, null, 2)}\n`);
}

/** The answer of a page, which no cache may keep. */
export function pageAnswer(
  status: number,
  contentType: string,
  body: string,
  headers: readonly string[] = [],
): WireResponse {
  return {
    status,
    headers: [
      ...["Content-Type", contentType, "Cache-Control", "no-store"],
      ...["X-Content-Type-Options", "nosniff", ...headers],
    ],
    body,
  };
}
