import type { Awaitable } from "../awaitable.ts";
import type { WireResponse } from "../wire/operation.ts";
import { type Page, pageAnswer } from "./pages.ts";

export interface Health {
  readonly ready: boolean;
  /** What operators need: the engine, its durability class, why it is not ready. */
  readonly detail: Readonly<Record<string, string | number | boolean>>;
}

/** `/healthz` (this process runs) and `/readyz` (it can serve), for callers without credentials. */
export function healthPages(look: () => Awaitable<Health>): readonly Page[] {
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
  return [
    { path: "/healthz", methods: { GET: healthz } },
    { path: "/readyz", methods: { GET: readyz } },
  ];
}

function answer(status: number, body: object): WireResponse {
  return pageAnswer(status, "application/json", `${JSON.stringify(body)}\n`);
}
