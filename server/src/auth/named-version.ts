import type { RequestHead } from "../wire/operation.ts";

/** The protocol version a request names: in its header, else in a parameter, else in its SAS. */
export function namedVersion(head: Pick<RequestHead, "header" | "query">): string | undefined {
  return head.header("x-ms-version") ?? head.query.get("api-version") ?? head.query.get("sv");
}
