import { timingSafeEqual } from "node:crypto";
import type { Awaitable } from "../awaitable.ts";
import { type AnswerPage, jsonAnswer, type PageRequest, textAnswer } from "../http/pages.ts";

/**
 * A page that only callers with the token may read. Pages that show keys, which are data, are such pages even for
 * callers on this machine: their requests may be forwarded by a proxy that does not say so.
 * @param token not empty
 */
export function behindToken(token: string, answer: AnswerPage): AnswerPage {
  return (request) =>
    isShown(token, request)
      ? answer(request)
      : textAnswer(
          403,
          "This page requires the server's insight token: ?token=TOKEN or Authorization: Bearer TOKEN.\n",
        );
}

/** A page of what `data` returns when it is requested. */
export function jsonPage(data: (query: URLSearchParams) => Awaitable<unknown>): AnswerPage {
  return ({ query }) => {
    const found = data(query);
    return found instanceof Promise
      ? found.then((each) => jsonAnswer(200, each))
      : jsonAnswer(200, found);
  };
}

/** Programs pass the token in a header, people in a URL. */
function isShown(token: string, { raw, query }: PageRequest): boolean {
  return (
    isSame(raw.headers.get("authorization") ?? "", `Bearer ${token}`) ||
    isSame(query.get("token") ?? "", token)
  );
}

function isSame(given: string, wanted: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(wanted)];
  return a.length === b.length && timingSafeEqual(a, b);
}
