import type { TableTarget } from "./table-wire.ts";
import { hmac } from "./table-wire.ts";

/** Parameters of a shared access signature, as the protocol names them. */
export type SasFields = Readonly<Record<string, string | undefined>>;

/** A service SAS of one table, as query text. Default: all permissions, for an hour, by the newest rules. */
export function tableSas(target: TableTarget, table: string, fields: SasFields = {}): string {
  const all: SasFields = { sv: "2019-02-02", sp: "raud", se: inMinutes(60), tn: table, ...fields };
  const { sp, st, se, si, sip, spr, sv, spk, srk, epk, erk } = all;
  const resource = `/table/${target.account}/${(all.tn ?? "").toLowerCase()}`;
  const text = [sp, st, se, resource, si, sip, spr, sv, spk, srk, epk, erk].join("\n");
  return printSas(all, hmac(target.key, text));
}

/** An account SAS, as query text. Default: all permissions on tables, for an hour. */
export function accountSas(target: TableTarget, fields: SasFields = {}): string {
  const all: SasFields = {
    sv: "2019-02-02",
    ss: "t",
    srt: "sco",
    sp: "rwdlau",
    se: inMinutes(60),
    ...fields,
  };
  const { sp, ss, srt, st, se, sip, spr, sv, ses } = all;
  const lines = [target.account, sp, ss, srt, st, se, sip, spr, sv];
  if ((sv ?? "") >= "2020-12-06") lines.push(ses);
  return printSas(all, hmac(target.key, `${lines.join("\n")}\n`));
}

/** A time from now, in the form of `st` and `se`. */
export function inMinutes(minutes: number): string {
  return `${new Date(Date.now() + minutes * 60_000).toISOString().slice(0, 19)}Z`;
}

function printSas(fields: SasFields, signature: string): string {
  const pairs = Object.entries({ ...fields, sig: signature });
  return pairs
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(value!)}`)
    .join("&");
}
