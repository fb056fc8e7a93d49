import type { RequestRecord, Sender } from "../wire/observer.ts";
import { detachedString } from "./detached-string.ts";

/** Counts for one address, account and kind of credential. */
export interface ClientCounts {
  readonly client: string;
  readonly account: string;
  readonly caller: RequestRecord["caller"];
  requests: number;
  /** Connections whose first request was one of these. */
  connections: number;
  preflights: number;
  /** Requests by scripts in web pages: those with an `Origin`, except preflights. */
  scripted: number;
}

/** Connections by the user agent of their first request. */
export interface AgentCounts {
  readonly agent: string;
  connections: number;
}

/** The name under which clients or agents beyond the limits are counted together. */
export const OTHERS = "others";

const CLIENTS_MAX = 256;
const AGENTS_MAX = 64;
const AGENT_LENGTH_MAX = 128;

/**
 * Counts clients: addresses, credentials, connections, user agents. Only the first request of a connection is
 * examined closely, and those from addresses that web pages are known to use. After the first 256 clients and
 * 64 agents, further ones are counted together: memory stays below 100 KiB.
 */
export class ClientTally {
  readonly #clients = new Map<string, ClientCounts>();
  readonly #agents = new Map<string, AgentCounts>();
  /** Addresses that have sent an `Origin`. */
  readonly #scripted = new Set<string>();
  /** Of the previous request, which is usually from the same client. */
  #last: ClientCounts | undefined;

  get clients(): Iterable<ClientCounts> {
    return this.#clients.values();
  }

  get agents(): Iterable<AgentCounts> {
    return this.#agents.values();
  }

  finished(record: RequestRecord, sender: Sender): void {
    const { account, caller, remoteAddress, verb } = record;
    let counts = this.#last;
    if (
      counts?.client !== remoteAddress ||
      counts.caller !== caller ||
      counts.account !== account
    ) {
      counts = this.#countsOf(record);
      this.#last = counts;
    }
    counts.requests++;
    if (sender.opensConnection) {
      counts.connections++;
      this.#countAgent(sender.header("user-agent") ?? "");
      if (sender.header("origin") !== undefined && this.#scripted.size < CLIENTS_MAX) {
        this.#scripted.add(counts.client);
      }
    }
    if (verb === "OPTIONS") counts.preflights++;
    else if (this.#scripted.size > 0 && this.#isScripted(counts.client, sender)) counts.scripted++;
  }

  #isScripted(client: string, sender: Sender): boolean {
    return this.#scripted.has(client) && sender.header("origin") !== undefined;
  }

  #countsOf({ account, caller, remoteAddress }: RequestRecord): ClientCounts {
    const isKnown = this.#clients.has(`${remoteAddress} ${account} ${caller}`);
    // Not copied: it is no part of a longer string, and comparing it with the next request's identical string
    // is cheap.
    const client = isKnown || this.#clients.size < CLIENTS_MAX ? remoteAddress : OTHERS;
    const key = `${client} ${account} ${caller}`;
    let counts = this.#clients.get(key);
    if (!counts) {
      const none = { requests: 0, connections: 0, preflights: 0, scripted: 0 };
      counts = { client, account, caller, ...none };
      this.#clients.set(key, counts);
    }
    return counts;
  }

  #countAgent(agent: string): void {
    const shown = agent.slice(0, AGENT_LENGTH_MAX);
    const name = this.#agents.has(shown) || this.#agents.size < AGENTS_MAX ? shown : OTHERS;
    const counts = this.#agents.get(name);
    if (counts) counts.connections++;
    else {
      const own = detachedString(name);
      this.#agents.set(own, { agent: own, connections: 1 });
    }
  }
}
