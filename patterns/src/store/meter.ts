import type { EntityKey, Page } from "../ports/tables.ts";
import { type Layer, mutationsOf } from "./layer.ts";

/** What was actually sent to the endpoints. */
export interface Usage {
  /** Billable requests, retries included. */
  readonly requests: number;
  /** Entities read or written, as far as answers show: a query inspects more than it returns. */
  readonly entities: number;
}

/** Counts each request as it is sent, and its entities once it is answered. */
export function meter(): { readonly usage: Usage; readonly layer: Layer } {
  const usage = { requests: 0, entities: 0 };
  const layer: Layer = async (call, send) => {
    usage.requests++;
    const answer = await send();
    if (call.port === "tables") usage.entities += mutationsOf(call).length || entitiesIn(answer);
    return answer;
  };
  return { usage, layer };
}

function entitiesIn(answer: unknown): number {
  const { entities, rowKey }: Partial<Page & EntityKey> = Object(answer);
  return entities?.length ?? (rowKey === undefined ? 0 : 1);
}
