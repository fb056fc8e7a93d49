/**
 * Shared access signatures: parsing their parameters and building the strings they sign. Nothing
 * here makes access decisions; a parameter that a version does not sign is ignored for it.
 * Source: "Create a service SAS", "Create an account SAS".
 */

/** The parameters of a token, decoded. Only `spk` and `epk` distinguish an empty value from an absent one. */
export type SasParameters = { readonly [Name in SasName]: string | undefined };

export type SasName = keyof typeof NO_PARAMETERS;

const NO_PARAMETERS = {
  sv: undefined,
  ss: undefined,
  srt: undefined,
  sr: undefined,
  sp: undefined,
  st: undefined,
  se: undefined,
  si: undefined,
  sip: undefined,
  spr: undefined,
  ses: undefined,
  tn: undefined,
  spk: undefined,
  srk: undefined,
  epk: undefined,
  erk: undefined,
  rscc: undefined,
  rscd: undefined,
  rsce: undefined,
  rscl: undefined,
  rsct: undefined,
  skoid: undefined,
  sktid: undefined,
  ske: undefined,
  sig: undefined,
};

/** Names are case-insensitive; the first non-empty value of a name counts, see `repeatedSasName`. */
export function parseSas(pairs: Iterable<readonly [name: string, value: string]>): SasParameters {
  const sas: { [Name in SasName]: string | undefined } = { ...NO_PARAMETERS };
  for (const [sent, value] of pairs) {
    const name = sent.toLowerCase();
    if (!isSasName(name) || sas[name] !== undefined) continue;
    if (value !== "" || name === "spk" || name === "epk") sas[name] = value;
  }
  return sas;
}

/**
 * A parameter that a token has more than once, if any. Whichever of its values were signed, a proxy or a reader
 * could take the other one for the truth.
 */
export function repeatedSasName(
  pairs: Iterable<readonly [name: string, value: string]>,
): SasName | undefined {
  const seen = new Set<SasName>();
  for (const [sent] of pairs) {
    const name = sent.toLowerCase();
    if (!isSasName(name)) continue;
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return undefined;
}

function isSasName(name: string): name is SasName {
  return Object.hasOwn(NO_PARAMETERS, name);
}

/** The versions at which the meaning of a token changes. They compare as text. */
export const SAS_VERSIONS = {
  serviceMin: "2012-02-12",
  /** Responses of blobs get overridable headers. */
  responseHeaders: "2013-08-15",
  /** The resource is prefixed with the service's name. */
  resourcePrefix: "2015-02-21",
  /** Account SAS, IP addresses and protocols. */
  accountMin: "2015-04-05",
  /** A blob's kind and snapshot time are signed. */
  blobKind: "2018-11-09",
  encryptionScope: "2020-12-06",
} as const;

/** The table is signed in lower case, whatever the case of `tn`. */
export function tableSasString(account: string, sas: SasParameters): string {
  const resource = `${prefix(sas, "table")}/${account}/${(sas.tn ?? "").toLowerCase()}`;
  return lines([...commonFields(sas, resource), sas.spk, sas.srk, sas.epk, sas.erk]);
}

export function queueSasString(account: string, queue: string, sas: SasParameters): string {
  return lines(commonFields(sas, `${prefix(sas, "queue")}/${account}/${queue}`));
}

/** `path` is the container, or container and blob with a slash between them, both decoded. */
export function blobSasString(account: string, path: string, sas: SasParameters): string {
  const fields = commonFields(sas, `${prefix(sas, "blob")}/${account}/${path}`);
  // The empty line is a snapshot time: snapshots are not served here.
  if (isFrom(sas, SAS_VERSIONS.blobKind)) fields.push(sas.sr, "");
  if (isFrom(sas, SAS_VERSIONS.encryptionScope)) fields.push(sas.ses);
  if (isFrom(sas, SAS_VERSIONS.responseHeaders)) {
    fields.push(sas.rscc, sas.rscd, sas.rsce, sas.rscl, sas.rsct);
  }
  return lines(fields);
}

/** The only form that ends in a line feed. */
export function accountSasString(account: string, sas: SasParameters): string {
  const { sp, ss, srt, st, se, sip, spr, sv } = sas;
  const fields = [account, sp, ss, srt, st, se, sip, spr, sv];
  if (isFrom(sas, SAS_VERSIONS.encryptionScope)) fields.push(sas.ses);
  fields.push("");
  return lines(fields);
}

function commonFields(sas: SasParameters, resource: string): (string | undefined)[] {
  const { sp, st, se, si, sip, spr, sv } = sas;
  return isFrom(sas, SAS_VERSIONS.accountMin)
    ? [sp, st, se, resource, si, sip, spr, sv]
    : [sp, st, se, resource, si, sv];
}

function prefix(sas: SasParameters, service: string): string {
  return isFrom(sas, SAS_VERSIONS.resourcePrefix) ? `/${service}` : "";
}

function isFrom(sas: SasParameters, version: string): boolean {
  return sas.sv !== undefined && sas.sv >= version;
}

/** `join` writes an absent field as an empty line. */
function lines(fields: readonly (string | undefined)[]): string {
  return fields.join("\n");
}

export interface Ipv4Range {
  readonly first: number;
  readonly last: number;
}

/** Parses `sip`: one IPv4 address, or an inclusive range of two with a hyphen between them. */
export function parseIpRange(text: string): Ipv4Range | undefined {
  const hyphen = text.indexOf("-");
  const first = parseIpv4(hyphen < 0 ? text : text.slice(0, hyphen));
  const last = hyphen < 0 ? first : parseIpv4(text.slice(hyphen + 1));
  if (first === undefined || last === undefined || first > last) return undefined;
  return { first, last };
}

/** An address as an unsigned number; one mapped into IPv6 (`::ffff:10.0.0.1`) is read as IPv4. */
export function parseIpv4(text: string): number | undefined {
  const parts = /^(?:::ffff:)?(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/i.exec(text);
  if (parts === null) return undefined;
  let address = 0;
  for (const part of parts.slice(1)) {
    if (Number(part) > 255) return undefined;
    address = address * 256 + Number(part);
  }
  return address;
}
