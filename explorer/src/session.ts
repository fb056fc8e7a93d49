import { signal } from "@preact/signals";
import { parseEntities, type Row } from "./entities.ts";

/** As `POST api/v1/session` answers. */
export interface Session {
  readonly token: string;
  readonly account: string;
  readonly kind: "key" | "sas";
  /** The one table of a table SAS. */
  readonly table?: string;
  readonly permissions?: string;
  readonly isReadOnly: boolean;
  /** Milliseconds since 1970. */
  readonly expires: number;
}

export type Credential =
  | { readonly link: string }
  | { readonly account: string; readonly key: string }
  | { readonly sas: string };

const STORED = "rowhouse.session";

/** In the tab's own storage: no cookie, which another port of this host could send. */
export const session = signal<Session | undefined>(restored());
/** Why the last session ended, for the login. */
export const farewell = signal("");

/** The account's public test key of every emulator; it protects nothing. */
export const DEVELOPMENT = {
  account: "devstoreaccount1",
  key: "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
};

function restored(): Session | undefined {
  try {
    const stored = JSON.parse(sessionStorage.getItem(STORED) ?? "null") as Session | null;
    return stored && stored.expires > Date.now() ? stored : undefined;
  } catch {
    return undefined;
  }
}

/** @throws ServerError if the server refuses or is not there */
export async function logIn(credential: Credential): Promise<void> {
  const answer = await ask("api/v1/session", { method: "POST", body: JSON.stringify(credential) });
  const text = await answer.text();
  if (!answer.ok) throw errorIn(answer.status, text);
  sessionStorage.setItem(STORED, text);
  session.value = JSON.parse(text) as Session;
  farewell.value = "";
}

export function logOut(why = ""): void {
  sessionStorage.removeItem(STORED);
  farewell.value = why;
  session.value = undefined;
}

/** What the server, or its absence, said. */
export class ServerError extends Error {
  /** 0: it was not there. */
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.name = "ServerError";
    this.status = status;
    this.code = code;
  }
}

export interface WireRequest {
  /** Of another session than the page's. */
  readonly token?: string;
  readonly service?: "queue" | "blob";
  readonly method?: string;
  /** Below the account, such as `/People()`; escaped. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

/**
 * Sends a request to the Table service or another, in the name of the session.
 * @throws ServerError for every answer but a success
 */
export async function wire(request: WireRequest): Promise<Response> {
  const known = session.value;
  if (!known) throw new ServerError(401, "SessionEnded", "Log in again.");
  const { token, service, method = "GET", path, query = {}, headers, body, signal } = request;
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === "" ? [] : [`${name}=${encodeURIComponent(value)}`],
  );
  const target = `api/v1/${service ?? "wire"}/${known.account}${path}${pairs.length > 0 ? `?${pairs.join("&")}` : ""}`;
  const answer = await ask(target, {
    method,
    headers: {
      ...(!service && { Accept: "application/json;odata=minimalmetadata" }),
      ...headers,
      Authorization: `Bearer ${token ?? known.token}`,
    },
    ...(body !== undefined && { body }),
    ...(signal && { signal }),
  });
  if (answer.ok) return answer;
  const error = errorIn(answer.status, await answer.text());
  if (error.status === 401 && token === undefined && session.value === known) logOut(error.message);
  throw error;
}

/**
 * What the server watched of the account: see `server/src/explorer/explorer-insight.ts`.
 * @throws ServerError for every answer but a success
 */
export function insight(name: "heat" | "activity" | "recordings"): Promise<Response> {
  return askOwn(`insight/${name}`, {});
}

/**
 * A slice of a change in bulk: see `server/src/explorer/bulk.ts`.
 * @throws ServerError for every answer but a success
 */
export async function bulkSlice(request: object): Promise<unknown> {
  const answer = await askOwn("bulk", { method: "POST", body: JSON.stringify(request) });
  return answer.json();
}

/**
 * Asks the explorer itself, in the name of the session.
 * @throws ServerError for every answer but a success
 */
export async function askOwn(path: string, init: RequestInit): Promise<Response> {
  const known = session.value;
  if (!known) throw new ServerError(401, "SessionEnded", "Log in again.");
  const headers = { Authorization: `Bearer ${known.token}` };
  const answer = await ask(`api/v1/${path}`, { ...init, headers });
  if (answer.ok) return answer;
  const error = errorIn(answer.status, await answer.text());
  if (error.status === 401 && session.value === known) logOut(error.message);
  throw error;
}

/** A shared access signature, and a session that has no other rights. */
export interface Signed {
  readonly sas: string;
  readonly token: string;
}

/**
 * Has the server make a signature: see `server/src/explorer/explorer-signature.ts`.
 * @throws ServerError for every answer but a success
 */
export async function sign(wanted: object): Promise<Signed> {
  const answer = await askOwn("sas", { method: "POST", body: JSON.stringify(wanted) });
  return (await answer.json()) as Signed;
}

async function ask(target: string, init: RequestInit): Promise<Response> {
  try {
    return wholeOrLost(
      await fetch(target, { ...init, cache: "no-store", credentials: "omit" }),
      location.host,
    );
  } catch (error) {
    throw isStop(error) ? error : noAnswer(location.host);
  }
}

/**
 * An answer whose body may break off, or be none of this server's: then the server is as lost as if it had said nothing,
 * or something else answers in its name.
 */
export function wholeOrLost(answer: Response, host: string): Response {
  for (const read of ["text", "json", "blob", "arrayBuffer"] as const) {
    const value = async () => {
      try {
        return await Response.prototype[read].call(answer);
      } catch (error) {
        if (isStop(error)) throw error;
        throw error instanceof SyntaxError ? unreadable(answer, error) : noAnswer(host);
      }
    };
    Object.defineProperty(answer, read, { value });
  }
  return answer;
}

/**
 * Entities in an answer of the Table service.
 * @throws ServerError if something else answered
 */
export async function readEntities(answer: Response): Promise<Row[]> {
  const text = await answer.text();
  try {
    return parseEntities(text);
  } catch (error) {
    throw error instanceof SyntaxError ? unreadable(answer, error) : error;
  }
}

function unreadable({ status }: Response, { message }: SyntaxError): ServerError {
  const text = `What answers is not the server of this page, or is another version now: ${message}`;
  return new ServerError(status, "UnreadableAnswer", text);
}

/** Of a part of the page that could not be loaded. */
export function partIsMissing(): ServerError {
  return new ServerError(
    0,
    "NoAnswer",
    `The server at ${location.host} does not answer, or is another version now: load the page again.`,
  );
}

function isStop(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

function noAnswer(host: string): ServerError {
  return new ServerError(0, "NoAnswer", `The server at ${host} does not answer. Is it running?`);
}

/** An error body of the Table service, in either of its forms. */
export function errorIn(status: number, text: string): ServerError {
  try {
    const { code, message } = JSON.parse(text)["odata.error"];
    return new ServerError(status, String(code), String(message.value).split("\n")[0]!);
  } catch {
    const [, code = `HTTP ${status}`] = /<(?:m:)?code>([^<]*)</i.exec(text) ?? [];
    const [, message = text.slice(0, 500)] = /<(?:m:)?message[^>]*>([^<\n]*)/i.exec(text) ?? [];
    return new ServerError(status, code, message);
  }
}
