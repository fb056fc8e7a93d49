import { createHmac } from "node:crypto";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import { assertReachable } from "./reachable.ts";

export interface SignedAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/**
 * Sends a GET to a table endpoint. `against` is an account's URL. If it contains a SAS, that authorizes the
 * request; otherwise the request is signed with a key of the account, from `AZURITE_ACCOUNTS` or of the development
 * account. The URL names the account in its path, or in its host (`name.table.host`); without either, the first
 * account is used.
 * @throws Error if `against` is not a URL, or if no key is known for the account.
 */
export async function fetchSigned(
  against: string,
  path: string,
  query: string,
  environment: NodeJS.ProcessEnv,
): Promise<SignedAnswer> {
  // The text may contain a signature, so the message does not repeat it.
  if (!URL.canParse(against) || !/^https?:/i.test(against)) {
    throw new Error("--against is not a URL such as http://127.0.0.1:10002/devstoreaccount1.");
  }
  const url = new URL(against);
  const headers: Record<string, string> = {
    "x-ms-version": "2019-02-02",
    "x-ms-date": new Date().toUTCString(),
    Accept: "application/json;odata=nometadata",
  };
  const signature = url.search.slice(1);
  const base = url.pathname.replace(/\/+$/, "");
  if (signature.includes("sig=")) {
    url.pathname = base + path;
    url.search = [query, signature].filter((part) => part !== "").join("&");
  } else {
    const hostAccount = /^([a-z0-9]+)\.table\./.exec(url.hostname)?.[1];
    const { name, key } = accountOf(hostAccount ?? base.split("/")[1], environment);
    url.pathname = (base === "" && !hostAccount ? `/${name}` : base) + path;
    url.search = query;
    const text = `${headers["x-ms-date"]}\n/${name}${url.pathname}`;
    const hash = createHmac("sha256", key).update(text, "utf8").digest("base64");
    headers.Authorization = `SharedKeyLite ${name}:${hash}`;
  }
  await assertReachable(url);
  const response = await fetch(url, { headers }).catch(({ cause, message }: Error) => {
    const reason = cause instanceof Error ? cause.message : message;
    throw new Error(`${url.origin} did not answer: ${reason}`, { cause });
  });
  return { status: response.status, headers: response.headers, body: await response.text() };
}

/** The named account, or the first one if none is named. @throws Error if no key is known for it. */
function accountOf(named: string | undefined, environment: NodeJS.ProcessEnv) {
  const accounts = parseAccounts(environment.AZURITE_ACCOUNTS);
  const name = named ?? accounts.names[0]!;
  const key = accounts.find(name)?.keys[0];
  if (key) return { name, key };
  throw new Error(
    `There is no key for account "${name}": add the account to AZURITE_ACCOUNTS, or use a URL with a SAS.`,
  );
}
