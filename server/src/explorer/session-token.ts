import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import type { Accounts } from "../auth/accounts.ts";
import type { Account } from "../wire/account.ts";

/** Who a session of the explorer is, and until when. */
export interface Session {
  readonly account: Account;
  /** Of the account, whose rights the session has; undefined for a session of a SAS. */
  readonly key: Uint8Array | undefined;
  /** A shared access signature as it was sent, without the question mark. */
  readonly sas: string | undefined;
  /** Milliseconds since 1970. */
  readonly expires: number;
}

export const SESSION_MS = 12 * 3_600_000;

const IV_BYTES = 12;
const TAG_BYTES = 16;

/**
 * A session as text that only this account's servers can read or make: `ACCOUNT.BASE64URL`, sealed with AES-256-GCM
 * under a key derived from one of the account's keys. Nothing is stored, so any process over the same accounts accepts
 * it, and a key that is replaced ends all its sessions.
 * @param key of the account; it seals, and is the one the session acts with unless there is a SAS
 */
export function sealSession(session: Omit<Session, "key">, key: Uint8Array): string {
  const { account, sas, expires } = session;
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv("aes-256-gcm", sealingKey(key), iv);
  cipher.setAAD(Buffer.from(account.name));
  const claims = JSON.stringify({ expires, sas });
  const sealed = Buffer.concat([iv, cipher.update(claims, "utf8"), cipher.final()]);
  return `${account.name}.${Buffer.concat([sealed, cipher.getAuthTag()]).toString("base64url")}`;
}

/** Undefined for anything but a token of an account that is served, within its time. */
export function openSession(token: string, accounts: Accounts, now: number): Session | undefined {
  const [name = "", text = ""] = token.split(".");
  const account = accounts.find(name);
  const sealed = Buffer.from(text, "base64url");
  if (!account || sealed.length <= IV_BYTES + TAG_BYTES) return undefined;
  for (const key of account.keys) {
    const claims = unseal(sealed, name, key);
    if (!claims) continue;
    const { expires, sas } = claims;
    return expires > now
      ? { account, key: sas === undefined ? key : undefined, sas, expires }
      : undefined;
  }
  return undefined;
}

function unseal(
  sealed: Buffer,
  name: string,
  key: Uint8Array,
): { readonly expires: number; readonly sas?: string } | undefined {
  try {
    const end = sealed.length - TAG_BYTES;
    const decipher = createDecipheriv("aes-256-gcm", sealingKey(key), sealed.subarray(0, IV_BYTES));
    decipher.setAAD(Buffer.from(name));
    decipher.setAuthTag(sealed.subarray(end));
    const text = Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, end)), decipher.final()]);
    // Only `sealSession` makes texts that open.
    return JSON.parse(text.toString("utf8"));
  } catch {
    return undefined;
  }
}

function sealingKey(key: Uint8Array): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", key, "", "rowhouse explorer session 1", 32));
}
