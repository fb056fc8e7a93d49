import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { assertSome, definitionRefused } from "./errors.ts";
import { TIMER_MS_MAX } from "./store/clock.ts";

export interface TransportOptions {
  /** Open sockets for each endpoint. Default: 64, as many as the requests `connect` allows at once. */
  readonly connections?: number;
  /** How long an idle socket stays open. Default: one minute. */
  readonly idleMs?: number;
}

/** Spread it into the options of an official client: `{ ...transport(url), ...singleTry }`. */
export interface Transport {
  /** Shared by all clients that receive it. `destroy()` closes its sockets. */
  readonly agent: HttpAgent;
  /** The queue and blob clients declare only this option in their types, but use both. */
  readonly keepAliveOptions: { readonly enable: true };
}

const CONNECTIONS = 64;
const IDLE_MS = 60_000;

/**
 * Keep-alive connections, limited in number, that send small requests without delay (no Nagle). For Node.js;
 * browsers manage their own connections.
 * @throws invalid-definition for invalid limits, or an endpoint that is neither http: nor https:.
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
    // The most recently used socket is the least likely to have been closed by the server.
    scheduling: "lifo",
    timeout: idleMs,
  } as const;
  const agent = protocol === "https:" ? new HttpsAgent(options) : new HttpAgent(options);
  return { agent, keepAliveOptions: { enable: true } };
}
