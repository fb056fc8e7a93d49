import { queryText, tomorrow } from "./storage-sas.ts";
import { KEY, sign, VERSION } from "./storage-wire.ts";

const ACCOUNT = "devstoreaccount1";

export interface BlobSas {
  readonly container: string;
  /** Absent: the token is for the container. */
  readonly blob?: string;
  readonly sp?: string;
  readonly st?: string;
  readonly se?: string;
  readonly si?: string;
  readonly sip?: string;
  readonly spr?: string;
  /** Default: the newest. */
  readonly sv?: string;
  readonly rscc?: string;
  readonly rscd?: string;
  readonly rsce?: string;
  readonly rscl?: string;
  readonly rsct?: string;
}

/** A token for a blob or a container, as query text: signs what its version prescribes, written out plainly. */
export function blobSas(sas: BlobSas): string {
  const { container, blob, sv = VERSION, sp = "", st = "", si = "", sip = "", spr = "" } = sas;
  const { se = si === "" ? tomorrow() : "" } = sas;
  const { rscc = "", rscd = "", rsce = "", rscl = "", rsct = "" } = sas;
  const sr = blob === undefined ? "c" : "b";
  const name = blob === undefined ? container : `${container}/${blob}`;
  const resource = `${sv >= "2015-02-21" ? "/blob" : ""}/${ACCOUNT}/${name}`;
  const fields = [sp, st, se, resource, si];
  if (sv >= "2015-04-05") fields.push(sip, spr);
  fields.push(sv);
  if (sv >= "2018-11-09") fields.push(sr, "");
  if (sv >= "2020-12-06") fields.push("");
  if (sv >= "2013-08-15") fields.push(rscc, rscd, rsce, rscl, rsct);
  const sig = sign(KEY, fields.join("\n"));
  return queryText({ sv, sr, sp, st, se, si, sip, spr, rscc, rscd, rsce, rscl, rsct, sig });
}
