import type { Database } from "../database.ts";
import { validationFailed } from "../errors.ts";
import { DAY_MS } from "../store/clock.ts";

/**
 * What our queues carry. A message names what to look at rather than what to change, because it may come
 * twice, late and in any order.
 */
export interface Message<Body = unknown> extends NewMessage<Body> {
  readonly v: 1;
  readonly id: string;
  /** When it was written, ISO text. */
  readonly at: string;
  /** Where the body is when it is too large for a queue. */
  readonly blob?: { readonly container: string; readonly name: string };
  /** What became of the last try. */
  readonly failure?: { readonly error: string; readonly dequeueCount: number; readonly at: string };
}

export interface NewMessage<Body = unknown> {
  /** Selects the handler. */
  readonly kind: string;
  /** What it is about, for people who look into the queue. */
  readonly key: string;
  readonly body: Body;
  readonly trace?: string;
  /** Default: a fresh one. */
  readonly id?: string;
}

/** The longest that a queue hides a message: 7 days. */
export const HIDDEN_MS_MAX = 7 * DAY_MS;

/** @throws validation-failed for what no handler could be found for. */
export function messageOf(database: Database, message: NewMessage): Message {
  if (typeof message?.kind !== "string") {
    throw validationFailed("The message", "kind", "text is expected");
  }
  const at = new Date(database.clock.now()).toISOString();
  // An id that is there but undefined is none.
  return { v: 1, at, ...message, id: message.id ?? database.writeToken() };
}
