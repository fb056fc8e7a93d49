import type { Awaitable } from "../awaitable.ts";
import type { WireResponse } from "../operation.ts";
import type { Handle } from "./node-listener.ts";
import type { RawRequest } from "./raw-request.ts";

/** Answers requests that are none of a service's; undefined leaves them to it. */
export type Pages = (request: RawRequest) => Awaitable<WireResponse> | undefined;

/** Puts pages in front of a service. */
export function withPages(handle: Handle, pages: Pages): Handle {
  return (request) => pages(request) ?? handle(request);
}
