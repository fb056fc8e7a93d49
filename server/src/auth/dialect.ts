import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import {
  blobSasString,
  queueSasString,
  SAS_VERSIONS,
  type SasParameters,
  tableSasString,
} from "@rowhouse/protocol/sas";
import {
  sharedKeyLiteStrings,
  sharedKeyStrings,
  tableSharedKeyLiteString,
  tableSharedKeyString,
} from "@rowhouse/protocol/shared-key";
import type { Identity, SasKeyRange, ServiceSasIdentity } from "../wire/identity.ts";
import type { RequestHead } from "../wire/operation.ts";
import { invalidParameter } from "../wire/query-parameters.ts";

/** Where the services differ in authentication. Everything else is in `authenticate.ts`. */
export interface AuthDialect {
  /** The service's letter in an account SAS. */
  readonly letter: "b" | "q" | "t";
  /** Oldest `x-ms-version` served. */
  readonly versionMin: string;
  /** The version assumed when a request signed with a key names none; undefined if it must name one. */
  readonly versionAbsent: string | undefined;
  /** Before this version, a missing permission of a service SAS is answered with 404; "" if never. */
  readonly refusalsHiddenBefore: string;
  /** The strings that a valid signature may be over, likeliest first. */
  sharedKeyStrings(head: RequestHead, path: string): Iterable<string>;
  sharedKeyLiteStrings(head: RequestHead, path: string): Iterable<string>;
  /** @throws ServiceError AuthenticationFailed if the token is not for the addressed resource. */
  readServiceSas(head: RequestHead, sas: SasParameters): ServiceSasReading;
  /** Whether a token's encryption scope is accepted and ignored. */
  readonly encryptionScopes: boolean;
  readonly bearer: boolean;
  /** AuthenticationFailed, with the detail if the service reports it. */
  failed(detail: string): ServiceError;
  /** A caller without credentials. @throws ServiceError unless the service has public data. */
  anonymous(head: RequestHead, challenge: string): Identity;
}

export interface ServiceSasReading {
  readonly stringToSign: string;
  /** The table, queue or container whose stored policies apply. */
  readonly name: string;
  readonly scope: Pick<ServiceSasIdentity, "table" | "keyRange" | "responseHeaders">;
}

const NO_SCOPE: ServiceSasReading["scope"] = {
  table: undefined,
  keyRange: undefined,
  responseHeaders: [],
};

export const tableAuth: AuthDialect = {
  letter: "t",
  versionMin: LIMITS.tableVersionMin,
  versionAbsent: LIMITS.tableVersionMin,
  refusalsHiddenBefore: "2015-04-05",
  sharedKeyStrings: (head, path) => [tableSharedKeyString(head, head.account.name, path)],
  sharedKeyLiteStrings: (head, path) => [tableSharedKeyLiteString(head, head.account.name, path)],
  encryptionScopes: true,
  bearer: true,
  failed: () => new ServiceError("AuthenticationFailed", { stage: "authentication" }),

  readServiceSas(head, sas) {
    const table = sas.tn?.toLowerCase();
    if (table === undefined) throw tableAuth.failed("tn is mandatory. Cannot be empty");
    // `$batch` and the service itself name no table; a batch checks each of its operations.
    const addressed = head.location.name;
    if (addressed !== "" && addressed.toLowerCase() !== table) {
      throw tableAuth.failed("The token is for another table");
    }
    return readTableSas(head.account.name, sas, table);
  },

  anonymous(head, challenge) {
    const version = head.header("x-ms-version") ?? head.query.get("api-version") ?? "";
    throw version >= "2020-12-06" ? challenged(challenge) : tableAuth.failed("");
  },
};

interface TableReading {
  readonly account: string;
  readonly reading: ServiceSasReading;
}

/**
 * Keyed by the parsed parameters, which are immutable and live as long as their token is
 * remembered. The reading depends only on them and the account; repeating it would take 4 % of a
 * point query's handler.
 */
const tableReadings = new WeakMap<SasParameters, TableReading>();

function readTableSas(account: string, sas: SasParameters, table: string): ServiceSasReading {
  const read = tableReadings.get(sas);
  if (read?.account === account) return read.reading;
  const reading = {
    stringToSign: tableSasString(account, sas),
    name: table,
    scope: { ...NO_SCOPE, table, keyRange: readKeyRange(sas) },
  };
  tableReadings.set(sas, { account, reading });
  return reading;
}

/**
 * The string to sign does not distinguish an empty key from an absent one. So an empty partition
 * key means no bound, unless a row key follows it: a bound that the holder of the token could
 * remove must not be relied on.
 */
function readKeyRange({ spk, srk, epk, erk }: SasParameters): SasKeyRange | undefined {
  if ((srk !== undefined && spk === undefined) || (erk !== undefined && epk === undefined)) {
    throw tableAuth.failed("A row key needs its partition key");
  }
  const range = {
    startPartitionKey: srk === undefined ? spk || undefined : spk,
    startRowKey: srk,
    endPartitionKey: erk === undefined ? epk || undefined : epk,
    endRowKey: erk,
  };
  const open = range.startPartitionKey === undefined && range.endPartitionKey === undefined;
  return open ? undefined : range;
}

/** The common part of Queue and Blob. */
const storageDialect = {
  versionMin: LIMITS.storageVersionMin,
  versionAbsent: undefined,
  refusalsHiddenBefore: "",
  sharedKeyStrings: (head: RequestHead, path: string) =>
    sharedKeyStrings(head, head.account.name, path),
  sharedKeyLiteStrings: (head: RequestHead, path: string) =>
    sharedKeyLiteStrings(head, head.account.name, path),
  bearer: false,
  failed: (detail: string) =>
    new ServiceError("AuthenticationFailed", {
      stage: "authentication",
      details: [["AuthenticationErrorDetail", detail]],
    }),
};

export const queueAuth: AuthDialect = {
  ...storageDialect,
  letter: "q",
  encryptionScopes: true,

  readServiceSas(head, sas) {
    const { name } = head.location;
    const stringToSign = queueSasString(head.account.name, name, sas);
    return { stringToSign, name, scope: NO_SCOPE };
  },

  anonymous() {
    throw noAuthenticationInformation();
  },
};

export const blobAuth: AuthDialect = {
  ...storageDialect,
  letter: "b",
  encryptionScopes: false,

  readServiceSas(head, sas) {
    const { name, item } = head.location;
    const { sr } = sas;
    if (sr !== "b" && sr !== "c") throw blobAuth.failed("sr must be b or c");
    if (sr === "b" && item === undefined) throw blobAuth.failed("The token is for a blob");
    const path = sr === "b" ? `${name}/${item}` : name;
    const stringToSign = blobSasString(head.account.name, path, sas);
    const scope = { ...NO_SCOPE, responseHeaders: overriddenHeaders(sas) };
    return { stringToSign, name, scope };
  },

  anonymous({ location, query, verb }) {
    // Browsers and probes ask for the root of an account; recorded without credentials.
    const comp = query.get("comp") ?? "";
    if (location.resource === "account" && isRead(verb) && comp.toLowerCase() !== "list") {
      throw invalidParameter("comp", comp, "list is expected.");
    }
    return { kind: "anonymous" };
  },
};

function isRead(verb: string): boolean {
  return verb === "GET" || verb === "HEAD";
}

/** None if the version does not sign them: anyone could have appended them to the token. */
function overriddenHeaders(sas: SasParameters): string[] {
  const headers: string[] = [];
  if (sas.sv === undefined || sas.sv < SAS_VERSIONS.responseHeaders) return headers;
  const override = (name: string, value: string | undefined) => {
    if (value !== undefined) headers.push(name, value);
  };
  override("Cache-Control", sas.rscc);
  override("Content-Disposition", sas.rscd);
  override("Content-Encoding", sas.rsce);
  override("Content-Language", sas.rscl);
  override("Content-Type", sas.rsct);
  return headers;
}

/** The response of Queue and Blob to an anonymous caller that lacks access. */
export function noAuthenticationInformation(): ServiceError {
  return new ServiceError("NoAuthenticationInformation", {
    stage: "authentication",
    headers: [["WWW-Authenticate", "SharedKey"]],
  });
}

/** A 401 that says where to get tokens (Table) or which scheme remains (Queue, Blob). */
export function challenged(challenge: string): ServiceError {
  return new ServiceError("InvalidAuthenticationInfo", {
    status: 401,
    message: ERROR_TEXTS.challenge,
    stage: "authentication",
    headers: [["WWW-Authenticate", challenge]],
  });
}
