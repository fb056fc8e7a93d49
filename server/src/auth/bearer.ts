import type { BearerIdentity } from "./identity.ts";

/** Finds out who stands behind a bearer token. */
export interface BearerVerifier {
  /** The `WWW-Authenticate` text that tells a caller where tokens come from. */
  readonly challenge: string;
  /** Whether tokens are taken over plain HTTP. */
  readonly allowHttp: boolean;
  /** Undefined for a token that is not genuine, expired or for someone else. */
  verify(token: string): Promise<BearerIdentity | undefined>;
}
