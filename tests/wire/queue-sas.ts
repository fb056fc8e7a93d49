import {
  queryText,
  type AccountSas as StorageSas,
  accountSas as storageAccountSas,
} from "./storage-sas.ts";
import { KEY, sign, VERSION } from "./storage-wire.ts";

export { inHours, tomorrow } from "./storage-sas.ts";

const ACCOUNT = "devstoreaccount1";

export interface ServiceSas {
  readonly queue: string;
  readonly sp?: string;
  readonly st?: string;
  readonly se?: string;
  readonly si?: string;
  readonly sip?: string;
  readonly spr?: string;
}

/** A token for one queue, as query text. */
export function serviceSas(sas: ServiceSas): string {
  const { queue, sp = "", st = "", se = "", si = "", sip = "", spr = "" } = sas;
  const text = [sp, st, se, `/queue/${ACCOUNT}/${queue}`, si, sip, spr, VERSION].join("\n");
  return queryText({ sv: VERSION, sp, st, se, si, sip, spr, sig: sign(KEY, text) });
}

/** A token for a whole account, as query text. */
export function accountSas({ ss = "q", ...sas }: Partial<StorageSas> & { sp: string }): string {
  return storageAccountSas({ ss, ...sas });
}
