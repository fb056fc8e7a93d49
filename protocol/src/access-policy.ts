/**
 * A stored access policy: what a SAS that names it by `si` takes from the server. Times are ISO 8601
 * texts that `policyInstant` understands; what is absent must come from the SAS itself.
 * Source: "Define a stored access policy".
 */
export interface AccessPolicy {
  /** 1 to 64 characters, compared exactly. */
  readonly id: string;
  readonly start?: string | undefined;
  readonly expiry?: string | undefined;
  /** Letters as stored, in no certain order. */
  readonly permission?: string | undefined;
}

const TIME =
  /^([0-9]{4})-([0-9]{2})-([0-9]{2})(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,7}))?)?Z)?$/;

/**
 * The time in the one form tables print, `2011-10-11T00:00:00.0000000Z`; undefined for any text but
 * `YYYY-MM-DD`, `…Thh:mmZ`, `…:ssZ` and `….fZ` with up to seven digits. Such texts sort by time.
 */
export function printPolicyTime(text: string): string | undefined {
  const milliseconds = policyInstant(text);
  if (milliseconds === undefined) return undefined;
  const fraction = /\.([0-9]+)/.exec(text)?.[1] ?? "";
  return `${new Date(milliseconds).toISOString().slice(0, 19)}.${fraction.padEnd(7, "0")}Z`;
}

/**
 * Milliseconds since 1970, fraction digits beyond them cut off; undefined as above. Every request
 * with a SAS reads two times, so this is the short way (0.3 µs).
 */
export function policyInstant(text: string): number | undefined {
  if (!TIME.test(text)) return undefined;
  const date = new Date(text);
  // Date moves February 30th and 24:00 to the next day that exists.
  return date.getUTCDate() === Number(text.slice(8, 10)) ? date.getTime() : undefined;
}
