import { validationFailed } from "../errors.ts";
import { DAY_MS } from "../store/clock.ts";
import type { Session } from "../store/session.ts";

/**
 * What our queues carry. A message names what to look at instead of what to change, because it may arrive
 * twice, late and in any order.
 */
export interface Message<Body = unknown> extends NewMessage<Body> {
  readonly v: 1;
  readonly id: string;
  /** When it was created, ISO text. */
  readonly at: string;
  /** Where the body is when it is too large for a queue. */
  readonly blob?: { readonly container: string; readonly name: string };
  /** How the last attempt failed. */
  readonly failure?: { readonly error: string; readonly dequeueCount: number; readonly at: string };
}

export interface NewMessage<Body = unknown> {
  /** Selects the handler. */
  readonly kind: string;
  /** What the message is about, for people who look into the queue. */
  readonly key: string;
  readonly body: Body;
  readonly trace?: string;
  /** Default: a new one. */
  readonly id?: string;
}

/** The longest time that a queue hides a message: 7 days. */
export const HIDDEN_MS_MAX = 7 * DAY_MS;

/** @throws validation-failed for a message without a kind, which no handler could be found for. */
export function messageOf(session: Session, message: NewMessage): Message {
  if (typeof message?.kind !== "string") {
    throw validationFailed("The message", "kind", "text is expected");
  }
  const at = new Date(session.clock.now()).toISOString();
  // An undefined id counts as missing.
  return { v: 1, at, ...message, id: message.id ?? session.writeToken() };
}
