import type { Awaitable } from "../awaitable.ts";
import type { WireResponse } from "../operation.ts";
import type { Handle } from "./node-listener.ts";

export interface Health {
  readonly ready: boolean;
  /** What an operator wants to know: the engine, its durability class, why it is not ready. */
  readonly detail: Readonly<Record<string, string | number | boolean>>;
}

/**
 * Answers `/healthz` (this process runs) and `/readyz` (it can serve) without credentials, in front
 * of a service whose account names cannot be either.
 */
export function withHealth(handle: Handle, look: () => Awaitable<Health>): Handle {
  return (request) => {
    if (request.target === "/healthz") return answer(200, { status: "ok" });
    if (request.target !== "/readyz") return handle(request);
    return Promise.resolve(look()).then(
      ({ ready, detail }) =>
        answer(ready ? 200 : 503, { status: ready ? "ready" : "not ready", ...detail }),
      () => answer(503, { status: "not ready" }),
    );
  };
}

function answer(status: number, body: object): WireResponse {
  return {
    status,
    headers: ["Content-Type", "application/json", "Cache-Control", "no-store"],
    body: `${JSON.stringify(body)}\n`,
  };
}
