import { KEY, sign, VERSION } from "./storage-wire.ts";

const ACCOUNT = "devstoreaccount1";

export interface AccountSas {
  readonly ss: string;
  readonly srt?: string;
  readonly sp: string;
  readonly se?: string;
}

/** A token for a whole account, as query text. */
export function accountSas({ ss, srt = "sco", sp, se = tomorrow() }: AccountSas): string {
  const text = [ACCOUNT, sp, ss, srt, "", se, "", "", VERSION, "", ""].join("\n");
  return queryText({ sv: VERSION, ss, srt, sp, se, sig: sign(KEY, text) });
}

export function tomorrow(): string {
  return inHours(24);
}

export function inHours(hours: number): string {
  return `${new Date(Date.now() + hours * 3_600_000).toISOString().slice(0, 19)}Z`;
}

export function queryText(parameters: Readonly<Record<string, string>>): string {
  return Object.entries(parameters)
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    .join("&");
}
