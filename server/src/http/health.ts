import type { Awaitable } from "../awaitable.ts";
import type { WireResponse } from "../wire/operation.ts";
import type { Pages } from "./pages.ts";

export interface Health {
  readonly ready: boolean;
  /** What operators need: the engine, its durability class, why it is not ready. */
  readonly detail: Readonly<Record<string, string | number | boolean>>;
}

/** `/healthz` (this process runs) and `/readyz` (it can serve), for callers without credentials. */
export function healthPages(look: () => Awaitable<Health>): Pages {
  const healthz = () => answer(200, { status: "ok" });
  const readiness = async () => {
    try {
      const { ready, detail } = await look();
      return answer(ready ? 200 : 503, { status: ready ? "ready" : "not ready", ...detail });
    } catch {
      return answer(503, { status: "not ready" });
    }
  };
  // Anyone may ask, and a look may occupy one of the database connections that clients write over, so
  // concurrent requests share one look.
  let looking: Promise<WireResponse> | undefined;
  const readyz = () => {
    looking ??= readiness().finally(() => {
      looking = undefined;
    });
    return looking;
  };
  return ({ target }) =>
    target === "/healthz" ? healthz : target === "/readyz" ? readyz : undefined;
}

function answer(status: number, body: object): WireResponse {
  return {
    status,
    headers: ["Content-Type", "application/json", "Cache-Control", "no-store"],
    body: `${JSON.stringify(body)}\n`,
  };
}
