import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { assertSome, definitionRefused } from "./errors.ts";
import { TIMER_MS_MAX } from "./store/clock.ts";

export interface TransportOptions {
  /** Sockets at once for each endpoint. Default: 64, as many requests as `connect` lets through. */
  readonly connections?: number;
  /** How long a socket that nobody uses stays open. Default: a minute. */
  readonly idleMs?: number;
}

/** To be spread into the options of an official client: `{ ...transport(url), ...singleTry }`. */
export interface Transport {
  /** Shared by all clients that are given it. `destroy()` closes its sockets. */
  readonly agent: HttpAgent;
  /** The queue and blob clients declare this part alone, and use both. */
  readonly keepAliveOptions: { readonly enable: true };
}

const CONNECTIONS = 64;
const IDLE_MS = 60_000;

/**
 * Connections that stay open, send small requests at once (no Nagle) and are limited in number. For
 * Node.js; browsers decide such things themselves.
 * @throws invalid-definition for limits that are none.
 */
export function transport(
  endpoint: string,
  { connections = CONNECTIONS, idleMs = IDLE_MS }: TransportOptions = {},
): Transport {
  assertSome("The transport", { connections, idleMs }, definitionRefused, TIMER_MS_MAX);
  const { protocol } = new URL(endpoint);
  if (protocol !== "http:" && protocol !== "https:") {
    throw definitionRefused("The transport", "endpoint", `${protocol} is not http: or https:`);
  }
  const options = {
    keepAlive: true,
    noDelay: true,
    maxSockets: connections,
    maxFreeSockets: connections,
    // The socket used last is the one least likely to have been closed by the other side.
    scheduling: "lifo",
    timeout: idleMs,
  } as const;
  const agent = protocol === "https:" ? new HttpsAgent(options) : new HttpAgent(options);
  return { agent, keepAliveOptions: { enable: true } };
}
