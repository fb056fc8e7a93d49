import { createHash, timingSafeEqual } from "node:crypto";
import { gunzipSync } from "node:zlib";
import type { Accounts } from "../auth/accounts.ts";
import type { Clock } from "../clock.ts";
import type { Handle } from "../http/lane-limits.ts";
import { jsonAnswer, type PageRequest, textAnswer } from "../http/pages.ts";
import type { WireResponse } from "../wire/operation.ts";
import { Query } from "../wire/query.ts";
import type { ServiceName } from "../wire/service-name.ts";
import { readBulk, workInBulk } from "./bulk.ts";
import type { BulkJobs, JobOwner } from "./bulk-jobs.ts";
import { answerInsight, type ExplorerInsight } from "./explorer-insight.ts";
import { answerJobs, BULK_BYTES_MAX } from "./explorer-jobs.ts";
import { answerSignature } from "./explorer-signature.ts";
import { askerFor, passOn, refusal } from "./gateway.ts";
import { openSession, SESSION_MS, type Session, sealSession } from "./session-token.ts";

/** A file of the page, compressed with gzip. */
export interface ExplorerAsset {
  readonly type: string;
  readonly gzip: Uint8Array;
}

export interface ExplorerOptions {
  readonly accounts: Accounts;
  readonly clock: Clock;
  /** The Table service, behind its own pipeline. */
  readonly handle: Handle;
  /** The other services, where they are served. */
  readonly others?: { readonly queue?: Handle | undefined; readonly blob?: Handle | undefined };
  /** By name; `index.html` is the page. */
  readonly assets: ReadonlyMap<string, ExplorerAsset>;
  /** Refuses every request that could change something. */
  readonly isReadOnly: boolean;
  /** Host names besides loopback's and IP addresses by which this server may be addressed. */
  readonly hosts: readonly string[];
  /** Takes the token of the start-up link: true for the right one, the first time. */
  readonly takeLink: (token: string) => boolean;
  /** Changes in bulk that go on without the page. Closed by who made it. */
  readonly jobs: BulkJobs;
  /** Absent where nothing is watched. */
  readonly insight?: ExplorerInsight | undefined;
}

const LOGIN_BYTES_MAX = 16 * 1024;

const SAFE = [
  "Content-Security-Policy",
  [
    ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:"],
    ...["connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
    ...["require-trusted-types-for 'script'", "trusted-types 'none'"],
  ].join("; "),
  ...["X-Content-Type-Options", "nosniff", "Referrer-Policy", "no-referrer"],
  ...["Cross-Origin-Opener-Policy", "same-origin", "Cross-Origin-Resource-Policy", "same-origin"],
];

/**
 * Answers everything below `/_rowhouse/` that no other page owns:
 *
 *     GET  /_rowhouse/                           the page
 *     GET  /_rowhouse/assets/NAME                its files
 *     POST /_rowhouse/api/v1/session             {"link"} | {"account", "key"} | {"sas"} → a session
 *     POST /_rowhouse/api/v1/bulk                a slice of a change to all entities that a filter finds
 *     ANY  /_rowhouse/api/v1/jobs…               such changes that go on without the page: `explorer-jobs.ts`
 *     ANY  /_rowhouse/api/v1/wire/ACCOUNT/…      a request to the Table service, in the name of the session
 *     ANY  /_rowhouse/api/v1/queue/ACCOUNT/…     the same to the Queue service
 *     ANY  /_rowhouse/api/v1/blob/ACCOUNT/…      and to the Blob service
 *     POST /_rowhouse/api/v1/sas                 a shared access signature, made with the session's key
 *     GET  /_rowhouse/api/v1/insight/NAME        what the server watched of the session's account
 */
export class ExplorerPage {
  readonly #options: ExplorerOptions;

  constructor(options: ExplorerOptions) {
    this.#options = options;
  }

  async answer(request: PageRequest): Promise<WireResponse> {
    const answer = await this.#answer(request);
    const named = new Set(SAFE.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase()));
    const own = answer.headers.filter((_, i, all) => !named.has(all[i - (i % 2)]!.toLowerCase()));
    return { ...answer, headers: [...own, ...SAFE] };
  }

  #answer(request: PageRequest): WireResponse | Promise<WireResponse> {
    const { raw, rest } = request;
    const host = raw.headers.get("host") ?? "";
    if (!this.#isOwnHost(host))
      return refusal(
        403,
        "ForeignHost",
        "The explorer does not answer under this name; see --explorer-host.",
      );
    if (rest === "") return this.#asset(request, "index.html");
    // Browsers send it with every request: nothing below is for pages of others.
    const site = raw.headers.get("sec-fetch-site");
    if (site !== undefined && site !== "same-origin" && site !== "none") return foreign();
    if (rest.startsWith("assets/")) return this.#asset(request, rest.slice("assets/".length));
    if (site === "none") return foreign();
    const origin = raw.headers.get("origin");
    // The scheme is not compared: a proxy may end TLS in front of a server without.
    if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`)
      return foreign();
    if (rest === "api/v1/session") return this.#logIn(request);
    if (rest === "api/v1/bulk") return this.#bulk(request);
    if (rest === "api/v1/jobs" || rest.startsWith("api/v1/jobs/"))
      return this.#jobs(request, rest.slice("api/v1/jobs/".length));
    if (rest.startsWith("api/v1/wire/"))
      return this.#wire(request, rest.slice("api/v1/wire/".length));
    for (const service of ["queue", "blob"] as const)
      if (rest.startsWith(`api/v1/${service}/`))
        return this.#wire(request, rest.slice(`api/v1/${service}/`.length), service);
    if (rest === "api/v1/sas") return this.#sign(request);
    if (rest.startsWith("api/v1/insight/"))
      return this.#insight(request, rest.slice("api/v1/insight/".length));
    return textAnswer(404, "The server has no page of this name.\n");
  }

  #asset({ raw }: PageRequest, name: string): WireResponse {
    const asset = this.#options.assets.get(name);
    if (!asset) return textAnswer(404, "The explorer has no file of this name.\n");
    if (raw.verb !== "GET" && raw.verb !== "HEAD") return notAllowed("GET, HEAD");
    const takesGzip = /\bgzip\b/.test(raw.headers.get("accept-encoding") ?? "");
    // Names of all files but the page contain a hash of what is in them.
    const keep = name === "index.html" ? "no-cache" : "public, max-age=31536000, immutable";
    const headers = ["Content-Type", asset.type, "Cache-Control", keep, "Vary", "Accept-Encoding"];
    if (takesGzip) headers.push("Content-Encoding", "gzip");
    return { status: 200, headers, body: takesGzip ? asset.gzip : gunzipSync(asset.gzip) };
  }

  async #logIn({ raw }: PageRequest): Promise<WireResponse> {
    if (raw.verb !== "POST") return notAllowed("POST");
    const body = await raw.body.read(LOGIN_BYTES_MAX);
    const claims = body && readClaims(Buffer.from(body).toString("utf8"));
    if (!claims)
      return refusal(400, "InvalidInput", "Send a link, or an account and its key, or a SAS.");
    const { clock, isReadOnly } = this.#options;
    const found = this.#identify(claims, raw.remoteAddress);
    if (typeof found === "string") return refusal(403, "AuthenticationFailed", found);
    await this.#options.insight?.start();
    const expires = clock.now() + SESSION_MS;
    const session = { account: found.account, sas: found.sas, expires };
    if (found.sas !== undefined) {
      const wrong = await this.#tryOut(raw, { ...session, key: undefined });
      if (wrong) return wrong;
    }
    const parameters = new URLSearchParams(found.sas ?? "");
    return jsonAnswer(200, {
      token: sealSession(session, found.key),
      account: found.account.name,
      kind: found.sas === undefined ? "key" : "sas",
      table: parameters.get("tn") ?? undefined,
      permissions: parameters.get("sp") ?? undefined,
      isReadOnly,
      expires,
    });
  }

  #identify(
    { link, account: name, key, sas }: Claims,
    client: string,
  ): { account: Session["account"]; key: Uint8Array; sas: string | undefined } | string {
    const { accounts, takeLink } = this.#options;
    if (link !== undefined) {
      const first = accounts.names
        .map((each) => accounts.find(each)!)
        .find((each) => !each.disabled);
      if (!isLoopback(client) || !first || !takeLink(link))
        return "This link was used before, or is of an earlier start of the server. Log in with the account's key.";
      return { account: first, key: first.keys[0]!, sas: undefined };
    }
    if (sas !== undefined) {
      const account = accounts.find(accountOfSas(sas));
      const query = sas.trim().slice(sas.indexOf("?") + 1);
      const isOne = /^[!-~]+$/.test(query) && new URLSearchParams(query).has("sig");
      if (!account || !isOne)
        return "That is no shared access signature of an account here. Paste the whole URL: http://HOST/ACCOUNT?sv=…&sig=…";
      return { account, key: account.keys[0]!, sas: query };
    }
    const account = accounts.find(name ?? "");
    const given = digest(Buffer.from(key ?? "", "base64"));
    const known = account?.keys.find((each) => timingSafeEqual(digest(each), given));
    if (!account || !known) return "The server has no account of this name with this key.";
    return { account, key: known, sas: undefined };
  }

  /** What the service says of a SAS that it does not believe. One that may not list tables is believed. */
  async #tryOut(raw: PageRequest["raw"], session: Session): Promise<WireResponse | undefined> {
    const { clock, handle } = this.#options;
    const request = { raw, rest: "", query: new URLSearchParams() };
    const ask = askerFor(request, { session, now: () => clock.now(), handle });
    const { answer } = await ask({
      verb: "GET",
      path: "Tables",
      headers: ["Accept", "application/json"],
    });
    const isBelieved = answer.status === 200 || !BELIEFS.test(JSON.stringify(answer.headers));
    return isBelieved ? undefined : answer;
  }

  #wire(
    request: PageRequest,
    path: string,
    service: ServiceName = "table",
  ): WireResponse | Promise<WireResponse> {
    const { clock, isReadOnly, others } = this.#options;
    const handle = service === "table" ? this.#options.handle : others?.[service];
    const { verb } = request.raw;
    const session = this.#sessionOf(request);
    if (!session) return sessionEnded();
    if (isReadOnly && (!READS.has(verb) || (service === "queue" && receives(request, path))))
      return readOnly();
    if (!handle) return refusal(404, "ServiceIsOff", `This server does not serve ${service}s.`);
    return passOn(request, { path, session, now: clock.now(), handle, service });
  }

  /** A signature for somebody else, with the session's key. */
  async #sign(request: PageRequest): Promise<WireResponse> {
    const { raw } = request;
    if (raw.verb !== "POST") return notAllowed("POST");
    const session = this.#sessionOf(request);
    if (!session) return sessionEnded();
    const body = await raw.body.read(LOGIN_BYTES_MAX);
    return answerSignature(
      Buffer.from(body ?? "").toString("utf8"),
      session,
      this.#options.isReadOnly,
    );
  }

  async #bulk(request: PageRequest): Promise<WireResponse> {
    const { clock, isReadOnly } = this.#options;
    const { raw } = request;
    if (raw.verb !== "POST") return notAllowed("POST");
    const session = this.#sessionOf(request);
    if (!session) return sessionEnded();
    const body = await raw.body.read(BULK_BYTES_MAX);
    const wanted = body && readBulk(Buffer.from(body).toString("utf8"));
    if (!wanted)
      return refusal(
        400,
        "InvalidInput",
        "Send a table, a filter, isDryRun, and to change entities, not to delete them, merge: an entity as JSON.",
      );
    if (isReadOnly && !wanted.isDryRun) return readOnly();
    const { ask, base } = this.#ownerOf(request, session);
    return jsonAnswer(200, await workInBulk(wanted, { ask, base, clock }));
  }

  #jobs(request: PageRequest, id: string): WireResponse | Promise<WireResponse> {
    const session = this.#sessionOf(request);
    if (!session) return sessionEnded();
    if (session.sas !== undefined)
      return refusal(
        403,
        "JobsNeedKey",
        "A signature begins no job: it may end before the job does. Log in with the account's key.",
      );
    const { isReadOnly, jobs } = this.#options;
    if (isReadOnly && request.raw.verb !== "GET") return readOnly();
    return answerJobs(request, id, { jobs, owner: this.#ownerOf(request, session) });
  }

  #ownerOf(request: PageRequest, session: Session): JobOwner {
    const { clock, handle } = this.#options;
    const account = session.account.name;
    const ask = askerFor(request, { session, now: () => clock.now(), handle });
    return { account, ask, base: `http://${request.raw.headers.get("host")}/${account}` };
  }

  #insight(request: PageRequest, name: string): WireResponse | Promise<WireResponse> {
    if (request.raw.verb !== "GET") return notAllowed("GET");
    const session = this.#sessionOf(request);
    return session ? answerInsight(name, session, this.#options.insight) : sessionEnded();
  }

  #sessionOf({ raw }: PageRequest): Session | undefined {
    const [, token = ""] = /^Bearer (.+)$/.exec(raw.headers.get("authorization") ?? "") ?? [];
    return openSession(token, this.#options.accounts, this.#options.clock.now());
  }

  #isOwnHost(host: string): boolean {
    const name = host.replace(/:\d+$/, "").toLowerCase();
    // Whoever makes a name of theirs lead here still sends their name: an address cannot be such a name.
    const isAddress = /^\d{1,3}(\.\d{1,3}){3}$|^\[[\da-f:.]+\]$/.test(name);
    return isAddress || name === "localhost" || this.#options.hosts.includes(name);
  }
}

const READS = new Set(["GET", "HEAD"]);

/** Whether a read below a queue is more than a peek: whoever receives a message hides it from everybody else. */
function receives({ raw }: PageRequest, path: string): boolean {
  if (path.split("/").length < 3) return false;
  try {
    // As the service reads it: the first of several, in any case.
    const [, sent = ""] = /\?(.*)$/.exec(raw.target) ?? [];
    return new Query(sent).get("peekonly")?.toLowerCase() !== "true";
  } catch {
    return true;
  }
}

/** Errors that mean that a credential is not believed. */
const BELIEFS = /AuthenticationFailed|AuthorizationSourceIPMismatch|AuthorizationProtocolMismatch/;

interface Claims {
  readonly link?: string;
  readonly account?: string;
  readonly key?: string;
  readonly sas?: string;
}

function readClaims(text: string): Claims | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { link, account, key, sas } = value as Record<string, unknown>;
  const given = { link, account, key, sas };
  const isText = Object.values(given).every(
    (each) => each === undefined || typeof each === "string",
  );
  const isOne =
    link !== undefined || sas !== undefined || (account !== undefined && key !== undefined);
  return isText && isOne ? (given as Claims) : undefined;
}

/** `http://127.0.0.1:10002/ACCOUNT/table?…`, or `https://ACCOUNT.table.HOST/?…`. */
function accountOfSas(sas: string): string {
  if (!URL.canParse(sas) || !sas.includes("?")) return "";
  const { hostname, pathname } = new URL(sas);
  const [label = "", service] = hostname.split(".");
  return service === "table" ? label : (pathname.split("/")[1] ?? "");
}

function isLoopback(address: string): boolean {
  return address.startsWith("127.") || address === "::1";
}

function digest(bytes: Uint8Array): Buffer {
  return createHash("sha256").update(bytes).digest();
}

function sessionEnded(): WireResponse {
  return refusal(
    401,
    "SessionEnded",
    "The session has ended, or its key was replaced. Log in again.",
  );
}

function readOnly(): WireResponse {
  return refusal(403, "ReadOnly", "This server's explorer is read-only (--explorer readonly).");
}

function foreign(): WireResponse {
  return refusal(403, "ForeignOrigin", "The explorer answers only its own page.");
}

function notAllowed(methods: string): WireResponse {
  return textAnswer(405, `This page answers ${methods}.\n`, ["Allow", methods]);
}
