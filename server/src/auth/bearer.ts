import { createHash } from "node:crypto";
import { ServiceError } from "@rowhouse/protocol/errors";
import {
  createLocalJWKSet,
  createRemoteJWKSet,
  decodeJwt,
  errors,
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from "jose";
import type { Clock } from "../clock.ts";
import type { BearerIdentity } from "../wire/identity.ts";

/** Verifies bearer tokens. */
export interface BearerVerifier {
  /** The `WWW-Authenticate` value that tells a caller where to get tokens. */
  readonly challenge: string;
  /** Whether tokens are accepted over plain HTTP. */
  readonly allowHttp: boolean;
  /**
   * Undefined for a token that is not genuine, has expired or is meant for another audience.
   * @throws ServiceError ServerBusy if the issuer's keys are not available.
   */
  verify(token: string): Promise<BearerIdentity | undefined>;
}

/** Where tokens come from and which resource they are for: the content of a challenge. */
export interface Authority {
  readonly authorizationUri: string;
  readonly resourceId: string;
}

export const DEFAULT_AUTHORITY: Authority = {
  authorizationUri: "https://login.microsoftonline.com/common/oauth2/authorize",
  resourceId: "https://storage.azure.com",
};

export function printChallenge({ authorizationUri, resourceId }: Authority): string {
  return `Bearer authorization_uri=${authorizationUri} resource_id=${resourceId}`;
}

export interface BearerSettings extends Authority {
  readonly issuers: readonly IssuerSettings[];
  /** Tokens that are accepted as they are, for tests. */
  readonly staticTokens: readonly StaticToken[];
  readonly allowHttp: boolean;
  /** How far the issuer's clock may differ from ours. */
  readonly clockToleranceS: number;
}

export interface IssuerSettings {
  /** The required value of `iss`. */
  readonly issuer: string;
  /** The accepted values of `aud`; a final slash makes no difference. */
  readonly audiences: readonly string[];
  /** The URL at which the issuer publishes its keys, or the keys themselves. */
  readonly keys: URL | JSONWebKeySet;
  /** The claim with the roles (a list, or a string with spaces); then the role names for each right. */
  readonly rolesClaim: string;
  readonly readerRoles: readonly string[];
  readonly contributorRoles: readonly string[];
}

export interface StaticToken {
  readonly token: string;
  readonly subject: string;
  readonly role: BearerIdentity["role"];
}

/** Public-key algorithms only: an HMAC under a published key would prove nothing. */
const ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
];

/** Verifies JSON Web Tokens of the configured issuers, each token every time: keys may be withdrawn. */
export class JwtVerifier implements BearerVerifier {
  readonly challenge: string;
  readonly allowHttp: boolean;
  readonly #clock: Clock;
  readonly #clockToleranceS: number;
  readonly #issuers: ReadonlyMap<string, Issuer>;
  /** Keyed by digest, so that the time of a lookup does not reveal how much of a token was right. */
  readonly #staticTokens: ReadonlyMap<string, BearerIdentity>;

  constructor(settings: BearerSettings, clock: Clock) {
    this.challenge = printChallenge(settings);
    this.allowHttp = settings.allowHttp;
    this.#clock = clock;
    this.#clockToleranceS = settings.clockToleranceS;
    this.#issuers = new Map(settings.issuers.map((issuer) => [issuer.issuer, new Issuer(issuer)]));
    this.#staticTokens = new Map(
      settings.staticTokens.map(({ token, subject, role }) => [
        digest(token),
        { kind: "bearer", role, subject },
      ]),
    );
  }

  async verify(token: string): Promise<BearerIdentity | undefined> {
    const known = this.#staticTokens.get(digest(token));
    if (known) return known;
    try {
      // Decoded unverified only to choose the issuer; `verify` checks `iss` again.
      const issuer = this.#issuers.get(decodeJwt(token).iss ?? "");
      return await issuer?.verify(token, {
        currentDate: new Date(this.#clock.now()),
        clockTolerance: this.#clockToleranceS,
      });
    } catch (cause) {
      if (isTokenFault(cause)) return undefined;
      throw new ServiceError("ServerBusy", { cause });
    }
  }
}

class Issuer {
  readonly #settings: IssuerSettings;
  readonly #audiences: string[];
  readonly #getKey: JWTVerifyGetKey;

  constructor(settings: IssuerSettings) {
    const { keys, audiences } = settings;
    this.#settings = settings;
    this.#audiences = audiences.flatMap((audience) => {
      const bare = audience.replace(/\/$/, "");
      return [bare, `${bare}/`];
    });
    this.#getKey = keys instanceof URL ? createRemoteJWKSet(keys) : createLocalJWKSet(keys);
  }

  async verify(
    token: string,
    time: { currentDate: Date; clockTolerance: number },
  ): Promise<BearerIdentity> {
    const { payload } = await jwtVerify(token, this.#getKey, {
      ...time,
      issuer: this.#settings.issuer,
      audience: this.#audiences,
      algorithms: ALGORITHMS,
      requiredClaims: ["exp"],
    });
    return { kind: "bearer", role: this.#roleIn(payload), subject: payload.sub ?? "" };
  }

  #roleIn(payload: JWTPayload): BearerIdentity["role"] {
    const { rolesClaim, readerRoles, contributorRoles } = this.#settings;
    const claim = payload[rolesClaim];
    const roles = typeof claim === "string" ? claim.split(" ") : claim;
    if (!Array.isArray(roles)) return "none";
    if (contributorRoles.some((role) => roles.includes(role))) return "contributor";
    return readerRoles.some((role) => roles.includes(role)) ? "reader" : "none";
  }
}

/** Whether the token is invalid, as opposed to a failure of the network or the issuer. */
function isTokenFault(error: unknown): boolean {
  return (
    error instanceof errors.JWTExpired ||
    error instanceof errors.JWTClaimValidationFailed ||
    error instanceof errors.JWTInvalid ||
    error instanceof errors.JWSInvalid ||
    error instanceof errors.JWSSignatureVerificationFailed ||
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWKSMultipleMatchingKeys ||
    error instanceof errors.JOSEAlgNotAllowed ||
    error instanceof errors.JOSENotSupported
  );
}

function digest(token: string): string {
  return createHash("sha256").update(token).digest("base64");
}
