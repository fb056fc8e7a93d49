import { createHmac } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";

/** The services that commands move data of, and their ports on a development machine. */
const PORTS = { table: 10002, blob: 10000 } as const;
type MovedService = keyof typeof PORTS;

/** An endpoint of one account, and the right to use it. */
export interface TableEndpoint {
  /** Up to and with the account where the path names it; no trailing slash, no signature. */
  readonly url: string;
  readonly account: string;
  readonly credential:
    | { readonly kind: "key"; readonly key: Uint8Array }
    | { readonly kind: "sas"; readonly query: string };
}

/**
 * Reads an endpoint as people have it at hand: a connection string in any of its spellings, or the URL of an
 * account's tables or blobs, with a SAS or with its key in `AZURITE_ACCOUNTS` (the development account needs neither).
 * @throws Error that says what is missing and never repeats the text, which may contain a key.
 */
export function parseTableEndpoint(
  text: string,
  environment: NodeJS.ProcessEnv,
  service: MovedService = "table",
): TableEndpoint {
  const given = text.trim();
  if (/^https?:\/\//i.test(given)) return endpointOfUrl(given, environment, service);
  const parts = connectionParts(given);
  if (parts.get("usedevelopmentstorage")?.toLowerCase() === "true") {
    const proxy = parts.get("developmentstorageproxyuri")?.replace(/\/+$/, "");
    const host = `${proxy ?? "http://127.0.0.1"}:${PORTS[service]}`;
    const { name, keys } = DEVELOPMENT_ACCOUNT;
    return { url: `${host}/${name}`, account: name, credential: { kind: "key", key: keys[0]! } };
  }
  const name = parts.get("accountname");
  const signature = parts.get("sharedaccesssignature")?.replace(/^\?/, "");
  const endpoint = parts.get(`${service}endpoint`)?.replace(/\/+$/, "");
  if (endpoint === undefined && name === undefined) {
    throw new Error(
      `The connection string names no account: AccountName or ${endpointName(service)} is expected, or UseDevelopmentStorage=true.`,
    );
  }
  const protocol = parts.get("defaultendpointsprotocol") ?? "https";
  const suffix = parts.get("endpointsuffix") ?? "core.windows.net";
  const url = endpoint ?? `${protocol}://${name}.${service}.${suffix}`;
  if (!URL.canParse(url))
    throw new Error(`The ${endpointName(service)} of the connection string is no URL.`);
  if (signature !== undefined) {
    return {
      url,
      account: name ?? accountIn(new URL(url)) ?? "",
      credential: { kind: "sas", query: signature },
    };
  }
  const key = parts.get("accountkey");
  if (key === undefined || name === undefined) {
    throw new Error(
      "The connection string has no AccountName with AccountKey, and no SharedAccessSignature.",
    );
  }
  return { url, account: name, credential: { kind: "key", key: Buffer.from(key, "base64") } };
}

function endpointName(service: MovedService): string {
  return service === "table" ? "TableEndpoint" : "BlobEndpoint";
}

function connectionParts(text: string): ReadonlyMap<string, string> {
  const parts = new Map<string, string>();
  for (const part of text.split(";")) {
    if (part.trim() === "") continue;
    const at = part.indexOf("=");
    if (at < 1 || !/^[A-Za-z ]+$/.test(part.slice(0, at))) {
      throw new Error(
        "This is no connection string of the form AccountName=…;AccountKey=…;TableEndpoint=…, and no URL that begins with http.",
      );
    }
    parts.set(part.slice(0, at).trim().toLowerCase(), part.slice(at + 1).trim());
  }
  if (parts.size === 0) throw new Error("The connection string is empty.");
  return parts;
}

function endpointOfUrl(
  text: string,
  environment: NodeJS.ProcessEnv,
  service: MovedService,
): TableEndpoint {
  if (!URL.canParse(text)) {
    throw new Error(
      `The URL cannot be read; http://127.0.0.1:${PORTS[service]}/devstoreaccount1 is an example.`,
    );
  }
  const parsed = new URL(text);
  const query = parsed.search.slice(1);
  const url = `${parsed.origin}${parsed.pathname.replace(/\/+$/, "")}`;
  const named = accountIn(parsed);
  if (query.includes("sig=")) {
    return { url, account: named ?? "", credential: { kind: "sas", query } };
  }
  const accounts = parseAccounts(environment.AZURITE_ACCOUNTS);
  const account = named ?? accounts.names[0]!;
  const key = accounts.find(account)?.keys[0];
  if (key === undefined) {
    throw new Error(
      `There is no key for account "${account}": add the account to AZURITE_ACCOUNTS, or give a connection string or a URL with a SAS.`,
    );
  }
  const isInHost = parsed.hostname.includes(`.${service}.`);
  const path = parsed.pathname.replace(/\/+$/, "");
  return {
    url: path === "" && !isInHost ? `${url}/${account}` : url,
    account,
    credential: { kind: "key", key },
  };
}

/** The account that a URL names, in its host or at the beginning of its path. */
function accountIn(url: URL): string | undefined {
  const inHost = /^([a-z0-9]+?)(?:-secondary)?\.(?:table|blob)\./.exec(url.hostname)?.[1];
  return inHost ?? (url.pathname.split("/")[1] || undefined);
}

export interface TableRequest {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Below the account, percent-encoded: `/Tables`. */
  readonly path: string;
  /** Percent-encoded, without the question mark. Default: none. */
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
}

export interface TableAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
}

export interface TableConnectionOptions {
  readonly endpoint: TableEndpoint;
  /** Once aborted, requests in flight end and no more are sent. */
  readonly signal?: AbortSignal;
  /** How often a request is sent at the most. Default: for about half a minute. */
  readonly attemptsMax?: number;
}

const ATTEMPTS_MAX = 9;
const FIRST_PAUSE_MS = 100;
const PAUSE_MS_MAX = 10_000;
const TRANSIENT = new Set([408, 429, 500, 502, 503, 504]);

/**
 * Sends signed requests to one endpoint. Waits and sends again where the service asks for it (`Retry-After`) or is
 * busy, and where a connection breaks; an endpoint that has never answered is reported at once.
 */
export class TableConnection {
  readonly endpoint: TableEndpoint;
  readonly #signal: AbortSignal | undefined;
  readonly #attemptsMax: number;
  #hasAnswered = false;

  constructor({ endpoint, signal, attemptsMax = ATTEMPTS_MAX }: TableConnectionOptions) {
    this.endpoint = endpoint;
    this.#signal = signal;
    this.#attemptsMax = attemptsMax;
  }

  /** @throws Error if there is no answer */
  async send(request: TableRequest): Promise<TableAnswer> {
    for (let attempt = 1; ; attempt++) {
      const answer = await this.#sendOnce(request, attempt);
      if (answer !== undefined && (attempt === this.#attemptsMax || !TRANSIENT.has(answer.status)))
        return answer;
      await pause(pauseBefore(attempt, answer), undefined, { signal: this.#signal });
    }
  }

  /** Returns undefined for a connection that broke and is worth another attempt. */
  async #sendOnce(request: TableRequest, attempt: number): Promise<TableAnswer | undefined> {
    const url = new URL(this.endpoint.url + request.path);
    const headers: Record<string, string> = {
      "x-ms-version": "2019-02-02",
      "x-ms-date": new Date().toUTCString(),
      ...request.headers,
    };
    const { account, credential } = this.endpoint;
    const query = request.query ?? "";
    if (credential.kind === "sas") {
      url.search = query === "" ? credential.query : `${query}&${credential.query}`;
    } else {
      url.search = query;
      const comp = url.searchParams.get("comp");
      const resource = `/${account}${url.pathname}${comp === null ? "" : `?comp=${comp}`}`;
      const text = `${headers["x-ms-date"]}\n${resource}`;
      const hash = createHmac("sha256", credential.key).update(text, "utf8").digest("base64");
      headers.Authorization = `SharedKeyLite ${account}:${hash}`;
    }
    try {
      const { method, body } = request;
      const response = await fetch(url, {
        method,
        headers,
        ...(body && { body }),
        ...(this.#signal && { signal: this.#signal }),
      });
      const bytes = Buffer.from(await response.arrayBuffer());
      this.#hasAnswered = true;
      return { status: response.status, headers: response.headers, body: bytes };
    } catch (error) {
      this.#signal?.throwIfAborted();
      if (this.#hasAnswered && attempt < this.#attemptsMax) return undefined;
      const { cause, message } = error as Error;
      const reason = cause instanceof Error ? cause.message || causeCode(cause) : message;
      throw new Error(
        `${url.origin} did not answer (${reason}). Is the server running, and is this its address?`,
        { cause: error },
      );
    }
  }
}

function causeCode(cause: Error): string {
  return "code" in cause ? String(cause.code) : cause.name;
}

function pauseBefore(attempt: number, answer: TableAnswer | undefined): number {
  const asked = Number(answer?.headers.get("retry-after") ?? Number.NaN) * 1000;
  if (asked >= 0) return Math.min(asked, PAUSE_MS_MAX);
  const longest = Math.min(PAUSE_MS_MAX, FIRST_PAUSE_MS * 2 ** (attempt - 1));
  return longest / 2 + (Math.random() * longest) / 2;
}

/** The code and the text of a refusal, in the formats that endpoints use. */
export function describeRefusal({ status, body }: TableAnswer): string {
  const text = body.toString("utf8");
  const code = /"code":"([^"]+)"/.exec(text)?.[1] ?? /<Code>([^<]+)</.exec(text)?.[1];
  const message =
    /"value":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? /<Message>([^<]+)</.exec(text)?.[1];
  const first = message?.split(/\\n|\n/)[0];
  return [String(status), code, first].filter((part) => part !== undefined).join(" ");
}
