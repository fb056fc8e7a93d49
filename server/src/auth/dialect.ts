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
import type { RequestHead } from "../operation.ts";
import type { Identity, SasKeyRange, ServiceSasIdentity } from "./identity.ts";

/** Where the services differ about who is asking. Everything else is in `authenticate.ts`. */
export interface AuthDialect {
  /** The service's letter in an account SAS. */
  readonly letter: "b" | "q" | "t";
  /** Oldest `x-ms-version` served. */
  readonly versionMin: string;
  /** What counts when a request signed with a key names no version; undefined: it must. */
  readonly versionAbsent: string | undefined;
  /** Before this version, what a service SAS does not permit is answered as if it were not there; "" for none. */
  readonly refusalsHiddenBefore: string;
  /** The strings a signature may stand under, likeliest first. */
  sharedKeyStrings(head: RequestHead, path: string): Iterable<string>;
  sharedKeyLiteStrings(head: RequestHead, path: string): Iterable<string>;
  /** @throws ServiceError AuthenticationFailed when the token is not for what is addressed. */
  readServiceSas(head: RequestHead, sas: SasParameters): ServiceSasReading;
  /** Whether tokens with an encryption scope are honoured by ignoring it. */
  readonly encryptionScopes: boolean;
  readonly bearer: boolean;
  /** AuthenticationFailed, with what went wrong where the service says so. */
  failed(detail: string): ServiceError;
  /** Someone without any credentials. @throws ServiceError unless the service has public data. */
  anonymous(head: RequestHead, challenge: string): Identity;
}

export interface ServiceSasReading {
  readonly stringToSign: string;
  /** The table, queue or container whose stored policies count. */
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
 * By the parameters they were read from, which never change and are kept as long as their token is
 * known. What a token says depends on nothing else but the account: reading it anew takes 4 % of a
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
 * The string to sign does not tell an empty end from an absent one, so an empty key means no end,
 * unless a row key follows it: what a holder could leave out must not be what restricts them.
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

/** What Queue and Blob have in common. */
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

  anonymous: () => ({ kind: "anonymous" }),
};

/** None where the version does not sign them: anybody could have put them behind the token. */
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

/** The answer of Queue and Blob to a stranger who may not do this. */
export function noAuthenticationInformation(): ServiceError {
  return new ServiceError("NoAuthenticationInformation", {
    stage: "authentication",
    headers: [["WWW-Authenticate", "SharedKey"]],
  });
}

/** A 401 that tells where tokens come from (Table) or which scheme is left (Queue, Blob). */
export function challenged(challenge: string): ServiceError {
  return new ServiceError("InvalidAuthenticationInfo", {
    status: 401,
    message: ERROR_TEXTS.challenge,
    stage: "authentication",
    headers: [["WWW-Authenticate", challenge]],
  });
}
