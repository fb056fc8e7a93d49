import { randomBytes } from "node:crypto";
import { readAccounts } from "@rowhouse/server/auth/account-settings";
import { Accounts } from "@rowhouse/server/auth/accounts";
import type { BearerVerifier } from "@rowhouse/server/auth/bearer";
import { SettingsError, SettingsSection } from "@rowhouse/server/auth/settings-section";
import {
  jsonAnswer,
  OWN_PATH,
  type Page,
  type PageRequest,
  textAnswer,
} from "@rowhouse/server/http/pages";
import type { RunningServer } from "@rowhouse/server/server";
import type { Account } from "@rowhouse/server/wire/account";
import type { WireResponse } from "@rowhouse/server/wire/operation";
import { connectionString } from "../connection-string.ts";
import { messageOf } from "../message-of.ts";
import { seed } from "../seed.ts";

const BODY_BYTES_MAX = 64 * 1024;
/** Each takes a few KiB while the server runs. */
const ACCOUNTS_MAX = 10_000;

export interface CiOptions {
  readonly accounts: Accounts;
  readonly bearer: BearerVerifier | undefined;
  /** Undefined until the server has started. */
  readonly server: () => RunningServer | undefined;
  /** The folder of `--seed`. */
  readonly seed: string | undefined;
}

/**
 * Accounts for tests, over HTTP, for callers without credentials: `--ci` alone turns them on, and needs data in memory.
 *
 *     POST /_rowhouse/accounts  {"name"?: string, "seed"?: boolean}   a fresh account
 *     POST /_rowhouse/reset     {"account": string, "seed"?: boolean} empties one
 */
export function ciPages(options: CiOptions): readonly Page[] {
  const post = (name: string, work: Work): Page => ({
    path: `${OWN_PATH}${name}`,
    methods: { POST: (request) => answered(options, request, work) },
  });
  return [post("accounts", createAccount), post("reset", resetAccount)];
}

/** A request, read. */
interface Asked extends CiOptions {
  readonly running: RunningServer;
  readonly settings: SettingsSection;
  /** The host name by which the caller reaches this server. */
  readonly host: string | undefined;
}

type Work = (asked: Asked) => Promise<WireResponse>;

async function answered(
  options: CiOptions,
  { raw }: PageRequest,
  work: Work,
): Promise<WireResponse> {
  // Browsers send it with every request that a page of another site makes them send.
  if (raw.headers.get("origin") !== undefined)
    return textAnswer(403, "Requests of web pages are refused.\n");
  const running = options.server();
  if (!running) return textAnswer(503, "The server is starting.\n");
  const body = await raw.body.read(BODY_BYTES_MAX);
  if (!body) return textAnswer(413, `The body may have ${BODY_BYTES_MAX} bytes at most.\n`);
  try {
    const settings = sectionOf(Buffer.from(body).toString("utf8"));
    return await work({ ...options, running, settings, host: raw.headers.get("host") });
  } catch (error) {
    if (error instanceof SettingsError) return textAnswer(400, `${error.message}\n`);
    throw error;
  }
}

/** An empty body means an empty object. */
function sectionOf(text: string): SettingsSection {
  let value: unknown;
  try {
    value = text.trim() === "" ? {} : JSON.parse(text);
  } catch {
    throw new SettingsError("The body is not JSON.");
  }
  return new SettingsSection(value, "The body");
}

async function createAccount(asked: Asked): Promise<WireResponse> {
  const { accounts, bearer, host, running, settings } = asked;
  const name = settings.optionalText("name") ?? `ci${randomBytes(8).toString("hex")}`;
  const isSeeded = settings.flag("seed");
  settings.end();
  if (accounts.find(name)) return textAnswer(409, `There is an account "${name}" already.\n`);
  const existing = accounts.names.map((each) => accounts.find(each)!);
  if (existing.length >= ACCOUNTS_MAX)
    return textAnswer(409, `There are ${ACCOUNTS_MAX} accounts; reset one instead.\n`);
  const key = randomBytes(64).toString("base64");
  const fresh = readAccounts(
    new SettingsSection({ accounts: [{ name, keys: [key] }] }, "The body"),
  ).find(name)!;
  await running.admit({ accounts: new Accounts([...existing, fresh]), bearer });
  await seedIfAsked(asked, isSeeded, fresh);
  const text = connectionString(reachedAt(running.urls, host), fresh);
  return jsonAnswer(201, { account: name, key, connectionString: text });
}

async function resetAccount(asked: Asked): Promise<WireResponse> {
  const { accounts, running, settings } = asked;
  const name = settings.text("account");
  const isSeeded = settings.flag("seed");
  settings.end();
  const account = accounts.find(name);
  if (!account) return textAnswer(404, `There is no account "${name}".\n`);
  await running.empty(name);
  await seedIfAsked(asked, isSeeded, account);
  return jsonAnswer(200, { account: name });
}

async function seedIfAsked(asked: Asked, isSeeded: boolean, account: Account): Promise<void> {
  if (!isSeeded) return;
  if (asked.seed === undefined)
    throw new SettingsError('"seed" needs a server that was started with --seed FOLDER.');
  await seed(asked.seed, asked.running, account).catch((cause) => {
    throw new SettingsError(messageOf(cause), { cause });
  });
}

/** The host that the caller named: a server in a container may listen at 0.0.0.0. */
function reachedAt(urls: RunningServer["urls"], host: string | undefined): RunningServer["urls"] {
  if (host === undefined || !URL.canParse(`http://${host}`)) return urls;
  const { hostname } = new URL(`http://${host}`);
  return Object.fromEntries(
    Object.entries(urls).map(([service, url]) => {
      const { protocol, port } = new URL(url);
      const authority = service === "table" ? host : `${hostname}:${port}`;
      return [service, `${protocol}//${authority}`];
    }),
  );
}
