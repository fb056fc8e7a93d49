import { type ClientCounts, OTHERS } from "../client-tally.ts";
import type { Refusal } from "../recording.ts";
import {
  counted,
  type Finding,
  getOrMake,
  groupBy,
  type Observed,
  type Rule,
  sumOf,
} from "./rule.ts";

const REQUESTS_MIN = 50;
/** A client that reuses its connections sends more requests than this over each. */
const REQUESTS_PER_CONNECTION_MIN = 3;
const REFUSED_PREFLIGHTS_MIN = 3;
const PREFLIGHTS_MIN = 20;

/** Finds clients that open a connection for each request, or nearly. */
export function findConnections({ clients }: Observed): Finding[] {
  const known = clients.filter(({ client }) => client !== OTHERS);
  const byAddress = groupBy(known, ({ account, client }) => `${account} ${client}`);
  const wasteful = [...byAddress.values()].flatMap((counts) => {
    const requests = sumOf(counts, (each) => each.requests);
    const connections = sumOf(counts, (each) => each.connections);
    const isWasteful =
      requests >= REQUESTS_MIN && requests < REQUESTS_PER_CONNECTION_MIN * connections;
    return isWasteful ? [{ ...counts[0]!, requests, connections }] : [];
  });
  return [...groupBy(wasteful, ({ account }) => account)].map(([account, all]) => ({
    ...{ rule: "connections", table: account, subject: "" },
    title: `${counted(all.length, "client opens", "clients open")} a connection for nearly every request`,
    evidence: all
      .slice(0, 3)
      .map(
        ({ client, connections, requests }) =>
          `${client}: ${requests} requests over ${connections} connections`,
      ),
    cost: "Each connection costs a round trip before the request, two or three more with TLS, and a port that stays in use for minutes.",
    remedy: {
      pattern: "connection reuse",
      advice:
        "Create one client object for the life of the process, and let it keep connections alive (in Node.js an agent with keepAlive; in .NET one TableServiceClient).",
      layout: [],
    },
  }));
}

/**
 * Finds web pages that hold the account's key, are blocked by the CORS rules, or send a preflight for each
 * request.
 */
export class PageAccess implements Rule {
  /** Refused preflights, by account. */
  readonly #refused = new Map<string, { count: number; readonly path: string }>();

  refused({ account, path, verb }: Refusal): void {
    if (verb === "OPTIONS") getOrMake(this.#refused, account, () => ({ count: 0, path })).count++;
  }

  findings({ clients }: Observed): Finding[] {
    const accounts = new Set([...clients.map(({ account }) => account), ...this.#refused.keys()]);
    return [...accounts].flatMap((account) => {
      const own = clients.filter((each) => each.account === account);
      const refused = this.#refused.get(account) ?? { count: 0, path: "" };
      return findPageAccess(account, own, refused);
    });
  }
}

function findPageAccess(
  account: string,
  clients: readonly ClientCounts[],
  refused: { readonly count: number; readonly path: string },
): Finding[] {
  const finding = (title: string, evidence: string[], cost: string, advice: string): Finding => ({
    ...{ rule: "page-access", table: account, subject: title, title, evidence, cost },
    remedy: { pattern: "direct access by SAS and CORS", advice, layout: [] },
  });
  const findings: Finding[] = [];
  const withKey = clients.filter(({ caller, scripted }) => caller === "shared-key" && scripted > 0);
  if (withKey.length > 0) {
    findings.push(
      finding(
        "Web pages sign with the account's key",
        withKey
          .slice(0, 3)
          .map(({ client, scripted }) => `${client}: ${scripted} requests with an Origin`),
        "Anyone who opens the page can read the key, which allows everything and can only be revoked for all clients at once.",
        "Give each page its own SAS: one table, only the permissions it uses, a range of keys, one hour.",
      ),
    );
  }
  if (refused.count >= REFUSED_PREFLIGHTS_MIN) {
    findings.push(
      finding(
        "Web pages are blocked by the CORS rules",
        [`${refused.count} preflights refused, the first for ${refused.path}`],
        "Such pages only work through a proxy, which signs every request and transfers every byte a second time.",
        "Add a CORS rule for the pages' origin, methods and headers to the service properties.",
      ),
    );
  }
  const preflights = sumOf(clients, (each) => each.preflights) - refused.count;
  const scripted = sumOf(clients, (each) => each.scripted);
  if (preflights >= PREFLIGHTS_MIN && 2 * preflights >= scripted) {
    findings.push(
      finding(
        "Web pages send a preflight for nearly every request",
        [`${preflights} preflights for ${scripted} requests`],
        "Each preflight is a round trip before the request, and counts as a request.",
        "Raise MaxAgeInSeconds of the CORS rule: browsers cache the answer that long, for each URL.",
      ),
    );
  }
  return findings;
}

/** User agents of retired libraries; current ones begin with "azsdk-". */
const RETIRED = /^(?:Azure-(?:Storage|Cosmos-Table|CosmosDB)|WA-Storage|WindowsAzure-Storage)\//i;
const CURRENT = /^(?:\S+ )?azsdk-([\w.-]+)\/(\d+(?:\.\d+)*)/;

/** Finds retired libraries, and versions used next to newer ones of the same library. */
export function findOldClients({ agents, clients }: Observed): Finding[] {
  const known = [...agents].flatMap(({ agent, connections }) => {
    const found = CURRENT.exec(agent);
    return found ? [{ library: found[1]!, version: found[2]!, connections }] : [];
  });
  const behind = [...groupBy(known, ({ library }) => library).values()].flatMap((versions) => {
    const newest = versions
      .map(({ version }) => version)
      .sort(byVersion)
      .at(-1)!;
    return versions
      .filter(({ version }) => byVersion(version, newest) < 0)
      .map(
        ({ connections, library, version }) =>
          `${library} ${version} next to ${newest}, over ${counted(connections, "connection")}`,
      );
  });
  const retired = [...agents]
    .filter(({ agent }) => RETIRED.test(agent))
    .map(
      ({ agent, connections }) => `${agent}: retired, over ${counted(connections, "connection")}`,
    );
  const evidence = [...retired, ...new Set(behind)].slice(0, 5);
  if (evidence.length === 0) return [];
  return [
    {
      ...{ rule: "old-clients", table: clients[0]?.account ?? "", subject: "", evidence },
      title: "Clients use retired or outdated libraries",
      cost: "Old libraries lack fixes to retries, timeouts and connection handling, and newer kinds of credentials.",
      remedy: {
        pattern: "newest client library",
        advice:
          "Update the clients to the newest library for their language (azsdk-…-data-tables).",
        layout: [],
      },
    },
  ];
}

function byVersion(a: string, b: string): number {
  const [left, right] = [a.split(".").map(Number), b.split(".").map(Number)];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

const CALLERS: Readonly<Record<ClientCounts["caller"], string>> = {
  "shared-key": "the account's key",
  "account-sas": "an account SAS",
  "service-sas": "a table SAS",
  bearer: "a bearer token",
  anonymous: "no credentials",
};

/** How many requests used each kind of credential: `120 with a table SAS, 3 with no credentials`. */
export function callersOf({ clients }: Observed): string {
  const kinds = groupBy(clients, ({ caller }) => caller);
  return [...kinds.values()]
    .map((counts) => ({ caller: counts[0]!.caller, requests: sumOf(counts, (c) => c.requests) }))
    .sort((a, b) => b.requests - a.requests)
    .map(({ caller, requests }) => `${requests} with ${CALLERS[caller]}`)
    .join(", ");
}

/** Whether any client used credentials of its own, or is a web page. */
export function hasDirectClients({ clients }: Observed): boolean {
  return clients.some(
    ({ caller, scripted }) => scripted > 0 || (caller !== "shared-key" && caller !== "anonymous"),
  );
}
