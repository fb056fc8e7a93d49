import {
  accountSasString,
  blobSasString,
  parseSas,
  queueSasString,
  type SasParameters,
  tableSasString,
} from "@rowhouse/protocol/sas";
import { HmacKey } from "../auth/hmac.ts";
import { jsonAnswer } from "../http/pages.ts";
import type { WireResponse } from "../wire/operation.ts";
import { refusal } from "./gateway.ts";
import { type Session, sealSession } from "./session-token.ts";

/**
 * Permissions that change nothing: all that a read-only explorer may give away. In no other spelling: what is signed
 * begins with them, and must not be mistaken for the name of an account.
 */
const READING = new Set(["r", "l", "rl"]);

interface Wanted {
  readonly service: "account" | "table" | "queue" | "blob";
  /** The queue, or the container, or container and blob. */
  readonly resource: string;
  /** All but the signature. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** Answers `{"sas": QUERY, "token": of a session that has no other rights}` for `{"service", "resource", "parameters"}`. */
export function answerSignature(
  body: string,
  { account, key, expires }: Session,
  isReadOnly: boolean,
): WireResponse {
  if (!key)
    return refusal(
      403,
      "SignatureNeedsKey",
      "A signature makes no other signatures. Log in with the account's key.",
    );
  const wanted = readWanted(body);
  if (!wanted)
    return refusal(
      400,
      "InvalidInput",
      "Send a service (account, table, queue or blob), a resource, and parameters.",
    );
  const { parameters } = wanted;
  const sas = parseSas(Object.entries(parameters));
  // A stored policy may allow more, now or later.
  if (isReadOnly && (!READING.has(sas.sp ?? "") || sas.si !== undefined))
    return refusal(
      403,
      "ReadOnly",
      "A read-only explorer makes signatures that read or list only.",
    );
  const signature = new HmacKey(key).sign(stringToSign(wanted, account.name, sas));
  const query = new URLSearchParams({ ...parameters, sig: signature });
  // Dates and signatures contain "+", which is a space for some readers of queries.
  const made = query.toString().replaceAll("+", "%20");
  const token = sealSession({ account, sas: made, expires }, key);
  return jsonAnswer(200, { sas: made, token });
}

function stringToSign({ service, resource }: Wanted, account: string, sas: SasParameters): string {
  switch (service) {
    case "account":
      return accountSasString(account, sas);
    case "table":
      return tableSasString(account, sas);
    case "queue":
      return queueSasString(account, resource, sas);
    case "blob":
      return blobSasString(account, resource, sas);
  }
}

const SERVICES = ["account", "table", "queue", "blob"] as const;

function readWanted(text: string): Wanted | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { service: named, resource = "", parameters } = value as Record<string, unknown>;
  const service = SERVICES.find((each) => each === named);
  if (!service || typeof resource !== "string") return undefined;
  if (typeof parameters !== "object" || parameters === null) return undefined;
  const isText = Object.values(parameters).every((each) => typeof each === "string");
  return isText ? { service, resource, parameters: { ...parameters } } : undefined;
}
