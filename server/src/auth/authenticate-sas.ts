import { type AccessPolicy, policyInstant } from "@rowhouse/protocol/access-policy";
import { ServiceError } from "@rowhouse/protocol/errors";
import { isProtocolVersion } from "@rowhouse/protocol/protocol-version";
import {
  accountSasString,
  parseIpRange,
  parseIpv4,
  SAS_VERSIONS,
  type SasParameters,
} from "@rowhouse/protocol/sas";
import type { Awaitable } from "../awaitable.ts";
import type { Identity } from "../wire/identity.ts";
import type { RequestHead } from "../wire/operation.ts";
import type { AuthContext } from "./auth-context.ts";
import type { AuthDialect, ServiceSasReading } from "./dialect.ts";
import { isSignedBy } from "./hmac.ts";
import { type KnownToken, rememberToken } from "./known-tokens.ts";

/** A request with a SAS, and everything needed to check it. */
interface SasRequest {
  readonly head: RequestHead;
  readonly sas: SasParameters;
  readonly known: KnownToken | undefined;
  readonly dialect: AuthDialect;
  readonly context: AuthContext;
}

/**
 * Verifies a shared access signature. The signature is checked first, so that an unauthenticated
 * caller learns nothing and causes no read of stored policies; then the policy, the time frame, the
 * IP address and the protocol.
 */
export function authenticateSas(
  sas: SasParameters,
  known: KnownToken | undefined,
  head: RequestHead,
  dialect: AuthDialect,
  context: AuthContext,
): Awaitable<Identity> {
  const request = { head, sas, known, dialect, context };
  if (sas.skoid !== undefined || sas.sktid !== undefined || sas.ske !== undefined) {
    throw dialect.failed("User delegation SAS is not supported");
  }
  return sas.ss !== undefined && sas.srt !== undefined
    ? authenticateAccountSas(request, sas.ss, sas.srt)
    : authenticateServiceSas(request);
}

function authenticateAccountSas(request: SasRequest, services: string, types: string): Identity {
  const { head, sas } = request;
  checkVersion(request, SAS_VERSIONS.accountMin);
  const permissions = mandatory(request, "sp", sas.sp);
  const expiry = mandatory(request, "se", sas.se);
  checkSignature(request, accountSasString(head.account.name, sas));
  checkTimeFrame(request, sas.st, expiry);
  checkSource(request);
  return { kind: "account-sas", services, resourceTypes: types, permissions };
}

function authenticateServiceSas(request: SasRequest): Awaitable<Identity> {
  const { head, sas, dialect, context } = request;
  checkVersion(request, SAS_VERSIONS.serviceMin);
  const reading = dialect.readServiceSas(head, sas);
  if (sas.si === undefined) {
    mandatory(request, "sp", sas.sp);
    mandatory(request, "se", sas.se);
  }
  checkSignature(request, reading.stringToSign);
  if (sas.si === undefined) return grantServiceSas(request, reading, NO_POLICY);
  const policy = context.storedPolicy({ account: head.account, name: reading.name, id: sas.si });
  return policy instanceof Promise
    ? policy.then((known) => grantServiceSas(request, reading, known))
    : grantServiceSas(request, reading, policy);
}

const NO_POLICY: AccessPolicy = { id: "" };

/** Each field is in the token or in the policy, never in both. */
function grantServiceSas(
  request: SasRequest,
  { scope }: ServiceSasReading,
  policy: AccessPolicy | undefined,
): Identity {
  const { sas, dialect } = request;
  if (policy === undefined) throw dialect.failed("The stored access policy does not exist");
  const { start, expiry, permission } = policy;
  if ((start && sas.st) || (expiry && sas.se) || (permission && sas.sp)) {
    throw dialect.failed(
      "Access policy fields can be associated with signature or SAS identifier but not both",
    );
  }
  const permissions = mandatory(request, "sp", sas.sp ?? permission);
  checkTimeFrame(request, sas.st ?? start, mandatory(request, "se", sas.se ?? expiry));
  checkSource(request);
  return { kind: "service-sas", permissions, ...scope };
}

function checkVersion({ sas, dialect }: SasRequest, versionMin: string): void {
  if (sas.sv === undefined) throw dialect.failed("sv is mandatory. Cannot be empty");
  if (!isProtocolVersion(sas.sv) || sas.sv < versionMin) {
    throw dialect.failed(`sv must be a version from ${versionMin} on`);
  }
}

function mandatory({ dialect }: SasRequest, name: string, value: string | undefined): string {
  if (!value) throw dialect.failed(`${name} is mandatory. Cannot be empty`);
  return value;
}

function checkSignature(request: SasRequest, stringToSign: string): void {
  const { head, sas, known, dialect } = request;
  if (known === undefined || known.stringToSign !== stringToSign) {
    if (!isSignedBy(head.account, stringToSign, sas.sig ?? "")) {
      throw dialect.failed(`Signature did not match. String to sign used was ${stringToSign}`);
    }
    rememberToken(head.account, head.query.raw, { sas, stringToSign });
  }
  if (sas.ses !== undefined && !dialect.encryptionScopes) throw new ServiceError("NotImplemented");
}

function checkTimeFrame(
  { dialect, head }: SasRequest,
  startText: string | undefined,
  expiryText: string,
): void {
  const start = startText ? instantOf(startText) : Number.NEGATIVE_INFINITY;
  const expiry = instantOf(expiryText);
  if (start === undefined) throw dialect.failed(`st is not a time: '${startText}'`);
  if (expiry === undefined) throw dialect.failed(`se is not a time: '${expiryText}'`);
  const now = head.arrivedAt;
  if (start <= now && now < expiry) return;
  throw dialect.failed(
    startText
      ? `Signature not valid in the specified time frame: Start [${rfc1123(start)}] - Expiry [${rfc1123(expiry)}] - Current [${rfc1123(now)}]`
      : `Signed expiry time [${rfc1123(expiry)}] must be after signed start time [${rfc1123(now)}]`,
  );
}

/** Requests repeat the same few times; parsing them takes 3 % of a point query's handler. */
function instantOf(text: string): number | undefined {
  let instant = instants.get(text);
  if (instant === undefined) {
    instant = policyInstant(text);
    if (instants.size >= INSTANTS_MAX) instants.clear();
    if (instant !== undefined) instants.set(text, instant);
  }
  return instant;
}

const instants = new Map<string, number>();
const INSTANTS_MAX = 512;

function rfc1123(time: number): string {
  return new Date(time).toUTCString();
}

/** Checks `sip` and `spr`. Older versions do not sign them, so they are ignored there. */
function checkSource({ head, sas, dialect }: SasRequest): void {
  if (sas.sv === undefined || sas.sv < SAS_VERSIONS.accountMin) return;
  if (sas.sip !== undefined) {
    const range = parseIpRange(sas.sip);
    if (range === undefined) throw dialect.failed("sip must be an IPv4 address or a range of them");
    const address = parseIpv4(head.remoteAddress);
    if (address === undefined || address < range.first || address > range.last) {
      throw new ServiceError("AuthorizationSourceIPMismatch", {
        message: `This request is not authorized to perform this operation using this source IP ${head.remoteAddress}.`,
      });
    }
  }
  if (sas.spr === undefined) return;
  if (sas.spr !== "https" && sas.spr !== "https,http" && sas.spr !== "http,https") {
    throw dialect.failed("spr must be https or https,http");
  }
  if (sas.spr === "https" && !head.secure) throw new ServiceError("AuthorizationProtocolMismatch");
}
