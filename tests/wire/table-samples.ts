import { runsOverPostgres } from "../support/test-engine.ts";
import { BATCH_TYPE, changeset } from "./table-batch.ts";
import type { Call, TableWire } from "./table-wire.ts";

/** A request that an operation answers with success, on a server with the table `People`. */
export interface Sample {
  readonly method: string;
  /** Below the account. `{id}` is replaced by new letters and digits. */
  readonly path: string;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A request to send first, for what must exist. */
  readonly before?: Sample;
  /** Whether it changes anything. */
  readonly writes: boolean;
  /** The error code if the table it names is missing; undefined if it names none. */
  readonly withoutTable?: "TableNotFound" | "ResourceNotFound";
  /** Answered at the secondary endpoint only. */
  readonly secondary?: true;
  /** Who may send it besides a holder of the key. */
  readonly rights: Rights;
}

/** What each kind of credential needs, derived from the protocol and not from the operations. */
export interface Rights {
  /** `srt` and the minimal `sp` of an account SAS, and a letter that suffices instead; absent if none suffices. */
  readonly account?: {
    readonly types: string;
    readonly permissions: string;
    readonly alternative?: string;
  };
  /** The minimal `sp` of a table SAS; absent if none suffices. */
  readonly table?: string;
  readonly bearer: "reader" | "contributor" | "hidden";
}

const ENTITY = "/People(PartitionKey='p',RowKey='{id}')";
const upsert: Sample = {
  method: "PUT",
  path: ENTITY,
  body: '{"a":1}',
  writes: true,
  withoutTable: "TableNotFound",
  rights: { account: { types: "o", permissions: "au" }, table: "au", bearer: "contributor" },
};
const createTable: Sample = {
  method: "POST",
  path: "/Tables",
  body: '{"TableName":"T{id}"}',
  writes: true,
  rights: {
    account: { types: "c", permissions: "c", alternative: "w" },
    bearer: "contributor",
  },
};
const XML = { "Content-Type": "application/xml" };
const OWNER: Rights = { bearer: "hidden" };
const FROM_START = '{"over":"entities","partitionKey":"","rowKey":""}';
const createIndex: Sample = {
  method: "PUT",
  path: "/_rowhouse/indexes/I{id}",
  body: '{"table":"T{id}","key":"a:String"}',
  before: createTable,
  writes: true,
  rights: OWNER,
};
const ACL: Pick<Sample, "path" | "withoutTable" | "rights"> = {
  path: "/People?comp=acl",
  withoutTable: "TableNotFound",
  rights: { bearer: "hidden" },
};
const PROPERTIES = "/?restype=service&comp=properties";
const READ_SERVICE: Rights = { account: { types: "s", permissions: "r" }, bearer: "reader" };
const LIST: Rights = { account: { types: "c", permissions: "l" }, bearer: "reader" };

/** Over PostgreSQL an index is ready, and so can be detached, a minute after it was declared. */
export const WITHOUT_SAMPLE: readonly string[] = runsOverPostgres() ? ["DetachIndex"] : [];

/** By name, one for each other operation of the service. */
export const SAMPLES: Readonly<Record<string, Sample>> = {
  QueryTables: { method: "GET", path: "/Tables", writes: false, rights: LIST },
  QueryTable: {
    method: "GET",
    path: "/Tables('People')",
    writes: false,
    withoutTable: "ResourceNotFound",
    rights: LIST,
  },
  CreateTable: createTable,
  DeleteTable: {
    method: "DELETE",
    path: "/Tables('T{id}')",
    before: createTable,
    writes: true,
    rights: { account: { types: "c", permissions: "d" }, bearer: "contributor" },
  },
  QueryEntities: {
    method: "GET",
    path: "/People()",
    writes: false,
    withoutTable: "TableNotFound",
    rights: { account: { types: "o", permissions: "r" }, table: "r", bearer: "reader" },
  },
  QueryEntity: {
    method: "GET",
    path: ENTITY,
    before: upsert,
    writes: false,
    withoutTable: "TableNotFound",
    rights: { account: { types: "o", permissions: "r" }, table: "r", bearer: "reader" },
  },
  InsertEntity: {
    method: "POST",
    path: "/People",
    body: '{"PartitionKey":"p","RowKey":"{id}","a":1}',
    writes: true,
    withoutTable: "TableNotFound",
    rights: { account: { types: "o", permissions: "a" }, table: "a", bearer: "contributor" },
  },
  InsertOrReplaceEntity: upsert,
  InsertOrMergeEntity: { ...upsert, method: "PATCH" },
  UpdateEntity: {
    ...upsert,
    headers: { "If-Match": "*" },
    before: upsert,
    rights: { account: { types: "o", permissions: "u" }, table: "u", bearer: "contributor" },
  },
  MergeEntity: {
    ...upsert,
    method: "MERGE",
    headers: { "If-Match": "*" },
    before: upsert,
    rights: { account: { types: "o", permissions: "u" }, table: "u", bearer: "contributor" },
  },
  DeleteEntity: {
    method: "DELETE",
    path: ENTITY,
    headers: { "If-Match": "*" },
    before: upsert,
    writes: true,
    withoutTable: "TableNotFound",
    rights: { account: { types: "o", permissions: "d" }, table: "d", bearer: "contributor" },
  },
  EntityGroupTransaction: {
    method: "POST",
    path: "/$batch",
    headers: { "Content-Type": BATCH_TYPE },
    body: changeset([
      { method: "POST", path: "/People", body: { PartitionKey: "p", RowKey: "{id}" } },
    ]),
    writes: true,
    rights: { account: { types: "o", permissions: "a" }, table: "a", bearer: "contributor" },
  },
  GetTableACL: { ...ACL, method: "GET", writes: false },
  SetTableACL: {
    ...ACL,
    method: "PUT",
    headers: XML,
    body: "<SignedIdentifiers />",
    writes: true,
  },
  GetTableStatistics: {
    method: "GET",
    path: "/_rowhouse/statistics/People",
    writes: false,
    withoutTable: "TableNotFound",
    rights: { account: { types: "o", permissions: "r" }, bearer: "reader" },
  },
  ListIndexes: { method: "GET", path: "/_rowhouse/indexes", writes: false, rights: OWNER },
  GetIndex: {
    method: "GET",
    path: "/_rowhouse/indexes/I{id}",
    before: createIndex,
    writes: false,
    rights: OWNER,
  },
  CreateIndex: createIndex,
  DropIndex: {
    method: "DELETE",
    path: "/_rowhouse/indexes/I{id}",
    before: createIndex,
    writes: true,
    rights: OWNER,
  },
  VerifyIndex: { ...ofIndex("verify"), body: FROM_START },
  RepairIndex: { ...ofIndex("repair"), body: FROM_START },
  ...(runsOverPostgres() ? {} : { DetachIndex: ofIndex("detach") }),
  DryRunIndex: {
    method: "POST",
    path: "/_rowhouse/indexes?comp=dryrun",
    body: '{"table":"People","key":"a:String"}',
    // Writes nothing, but the secondary answers nothing but GET and HEAD.
    writes: true,
    rights: OWNER,
  },
  GetTableServiceProperties: {
    method: "GET",
    path: PROPERTIES,
    writes: false,
    rights: READ_SERVICE,
  },
  SetTableServiceProperties: {
    method: "PUT",
    path: PROPERTIES,
    headers: XML,
    body: "<StorageServiceProperties><Cors /></StorageServiceProperties>",
    writes: true,
    rights: { account: { types: "s", permissions: "w" }, bearer: "contributor" },
  },
  GetTableServiceStats: {
    method: "GET",
    path: "/?restype=service&comp=stats",
    writes: false,
    secondary: true,
    rights: READ_SERVICE,
  },
  GetServiceDocument: { method: "GET", path: "/", writes: false, rights: LIST },
  GetMetadata: { method: "GET", path: "/$metadata", writes: false, rights: LIST },
};

function ofIndex(comp: string): Sample {
  return {
    method: "POST",
    path: `/_rowhouse/indexes/I{id}?comp=${comp}`,
    before: createIndex,
    writes: true,
    rights: OWNER,
  };
}

/** A sample with its `{id}` filled in. */
export interface Drawn {
  readonly method: string;
  readonly path: string;
  readonly call: Call;
  /** Sends the requests for what must exist. */
  prepare(wire: TableWire): Promise<void>;
}

let drawn = 0;

export function draw(sample: Sample): Drawn {
  const id = `x${process.pid}x${drawn++}`;
  const filled = fill(sample, id);
  return {
    ...filled,
    async prepare(wire) {
      const needed: Sample[] = [];
      for (let each = sample.before; each; each = each.before) needed.unshift(each);
      for (const each of needed) {
        const { method, path, call } = fill(each, id);
        const answer = await wire.send(method, path, call);
        if (answer.status >= 300) throw new Error(String(answer));
      }
    },
  };
}

function fill(sample: Sample, id: string): Omit<Drawn, "prepare"> {
  return {
    method: sample.method,
    path: sample.path.replaceAll("{id}", id),
    call: { body: sample.body?.replaceAll("{id}", id), headers: sample.headers ?? {} },
  };
}
