import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import {
  AzureNamedKeyCredential,
  AzureSASCredential,
  type Edm,
  generateAccountSas,
  generateTableSas,
  odata,
  RestError,
  TableClient,
  TableServiceClient,
  TableTransaction,
  type TransactionAction,
} from "@azure/data-tables";
import { WireTarget } from "./table-target.ts";

const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };
const target = await WireTarget.open();
after(() => target.close());
const credential = new AzureNamedKeyCredential(target.account, target.key);
const service = TableServiceClient.fromConnectionString(target.connectionString, options);

/** A client of a new table. */
async function newTable(): Promise<TableClient> {
  const table = TableClient.fromConnectionString(target.connectionString, target.name(), options);
  await table.createTable();
  return table;
}

/** The service's refusal, as the client reports it. */
async function refusalOf(
  work: Promise<unknown>,
): Promise<{ status: number | undefined; code: string | undefined }> {
  try {
    await work;
  } catch (error) {
    assert.equal(error instanceof RestError, true, String(error));
    const { statusCode, code, details } = error as RestError;
    const inner = details as { odataError?: { code?: string } } | undefined;
    return { status: statusCode, code: inner?.odataError?.code ?? code };
  }
  throw new Error("Nothing was refused.");
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

describe("The official client's service client", () => {
  it("creates, lists and deletes tables", async () => {
    const names = ["a", "b", "c"].map((letter) => target.name() + letter);
    for (const name of names) await service.createTable(name);
    const filter = odata`TableName ge ${names[0]!} or TableName eq ${names[1]!} or TableName eq ${names[2]!}`;
    const found = await collect(service.listTables({ queryOptions: { filter } }));
    for (const name of names)
      assert.equal(
        found.some((table) => table.name === name),
        true,
      );
    const pages = await collect(service.listTables().byPage({ maxPageSize: 1 }));
    assert.equal(
      pages.every((page) => page.length <= 1),
      true,
    );
    for (const name of names) await service.deleteTable(name);
    // The client treats TableAlreadyExists and ResourceNotFound as success.
    await service.deleteTable(names[0]!);
  });

  it("reads and changes the service properties", async () => {
    const before = await service.getProperties();
    assert.equal(before.hourMetrics?.version, "1.0");
    const rule = {
      allowedOrigins: "http://a",
      allowedMethods: "GET",
      allowedHeaders: "",
      exposedHeaders: "",
      maxAgeInSeconds: 5,
    };
    await service.setProperties({ cors: [rule] });
    const { cors } = await service.getProperties();
    assert.deepEqual(
      cors?.map(({ allowedOrigins, maxAgeInSeconds }) => [allowedOrigins, maxAgeInSeconds]),
      [["http://a", 5]],
    );
    await service.setProperties({ cors: [] });
    assert.deepEqual((await service.getProperties()).cors ?? [], []);
  });

  it("reads the statistics from the secondary", async () => {
    const { pathname } = new URL(target.url);
    const url = target.url.replace(pathname, `${pathname}-secondary`);
    const secondary = new TableServiceClient(url, credential, options);
    assert.equal((await secondary.getStatistics()).geoReplication?.status, "live");
  });

  it("reports the service's error codes", async () => {
    assert.deepEqual(await refusalOf(service.createTable("1")), {
      status: 400,
      code: "OutOfRangeInput",
    });
    assert.deepEqual(await refusalOf(service.createTable("a-b-c")), {
      status: 400,
      code: "InvalidResourceName",
    });
    const stranger = new TableServiceClient(
      target.url,
      new AzureNamedKeyCredential(target.account, "AAAA"),
      options,
    );
    assert.deepEqual(await refusalOf(stranger.createTable("abc")), {
      status: 403,
      code: "AuthenticationFailed",
    });
  });
});

describe("The official client's table client", () => {
  it("writes and reads entities of every type", async () => {
    const table = await newTable();
    const when = new Date("2012-11-10T03:04:05.678Z");
    const guid: Edm<"Guid"> = { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" };
    const double: Edm<"Double"> = { type: "Double", value: 4 };
    const entity = {
      partitionKey: "O'Brien & Söhne",
      rowKey: "50% 𝒳",
      text: 'a "quoted" <text>\n',
      int: 7,
      long: 9_007_199_254_740_993n,
      fraction: 1.5,
      double,
      yes: true,
      when,
      guid,
      bytes: new Uint8Array([1, 2, 255]),
      absent: undefined,
    };
    const created = await table.createEntity(entity);
    const read = await table.getEntity<typeof entity>(entity.partitionKey, entity.rowKey);
    assert.equal(read.etag, created.etag);
    assert.equal(read.text, entity.text);
    assert.equal(read.int, 7);
    assert.equal(read.long, entity.long);
    assert.equal(read.fraction, 1.5);
    assert.equal(read.double, 4);
    assert.equal(read.yes, true);
    assert.deepEqual(read.when, when);
    assert.deepEqual(read.guid, guid);
    assert.deepEqual(Buffer.from(read.bytes), Buffer.from(entity.bytes));
    assert.equal("absent" in read, false);
    assert.match(read.timestamp!, /^\d{4}-/);
  });

  it("updates by ETag, upserts and deletes", async () => {
    const table = await newTable();
    const keys = { partitionKey: "p", rowKey: "r" };
    const first = await table.upsertEntity({ ...keys, a: 1 }, "Replace");
    await table.updateEntity({ ...keys, b: 2 }, "Merge", { etag: first.etag! });
    const stale = refusalOf(
      table.updateEntity({ ...keys, b: 3 }, "Replace", { etag: first.etag! }),
    );
    assert.deepEqual(await stale, { status: 412, code: "UpdateConditionNotSatisfied" });
    const read = await table.getEntity("p", "r", { queryOptions: { select: ["a", "b", "c"] } });
    assert.deepEqual([read.a, read.b, read.c], [1, 2, null]);
    await table.deleteEntity("p", "r", { etag: read.etag });
    assert.deepEqual(await refusalOf(table.deleteEntity("p", "r")), {
      status: 404,
      code: "ResourceNotFound",
    });
    assert.deepEqual(await refusalOf(table.getEntity("p", "r")), {
      status: 404,
      code: "ResourceNotFound",
    });
    await table.createEntity(keys);
    assert.deepEqual(await refusalOf(table.createEntity(keys)), {
      status: 409,
      code: "EntityAlreadyExists",
    });
  });

  it("queries with filters, and another client continues from its continuation token", async () => {
    const table = await newTable();
    const actions: TransactionAction[] = Array.from({ length: 40 }, (_, i) => [
      "create",
      {
        partitionKey: "p",
        rowKey: String(i).padStart(3, "0"),
        odd: i % 2 === 1,
        when: new Date(i * 1000),
        long: BigInt(i),
      },
    ]);
    await table.submitTransaction(actions);
    const filter = odata`PartitionKey eq ${"p"} and odd eq ${true} and when ge ${new Date(9_000)} and long lt ${31n}`;
    const found = await collect(
      table.listEntities({ queryOptions: { filter, select: ["rowKey"] } }),
    );
    assert.deepEqual(
      found.map(({ rowKey }) => Number(rowKey)),
      Array.from({ length: 11 }, (_, i) => 9 + 2 * i),
    );

    const pages = table.listEntities().byPage({ maxPageSize: 15 });
    const first = (await pages.next()).value as { continuationToken?: string } & {
      rowKey?: string;
    }[];
    assert.equal(first.length, 15);
    const other = TableClient.fromConnectionString(
      target.connectionString,
      table.tableName,
      options,
    );
    const rest = await collect(
      other.listEntities().byPage({ maxPageSize: 15, continuationToken: first.continuationToken! }),
    );
    assert.deepEqual(
      rest.flat().map(({ rowKey }) => Number(rowKey)),
      Array.from({ length: 25 }, (_, i) => 15 + i),
    );
  });

  it("submits transactions, and reports their error codes", async () => {
    const table = await newTable();
    const transaction = new TableTransaction();
    transaction.createEntity({ partitionKey: "p", rowKey: "1", v: 1 });
    transaction.upsertEntity({ partitionKey: "p", rowKey: "2", v: 2 }, "Merge");
    transaction.upsertEntity({ partitionKey: "p", rowKey: "3", v: 3 }, "Replace");
    const done = await table.submitTransaction(transaction.actions);
    assert.equal(done.status, 202);
    const answers = done.subResponses;
    assert.deepEqual(
      answers.map(({ status }) => status),
      [204, 204, 204],
    );
    const read = await table.getEntity("p", "2");
    assert.equal(answers[1]!.etag, read.etag);

    const failing = table.submitTransaction([
      ["delete", { partitionKey: "p", rowKey: "1" }],
      ["update", { partitionKey: "p", rowKey: "2" }, "Replace", { etag: read.etag }],
      ["create", { partitionKey: "p", rowKey: "3" }],
    ]);
    assert.deepEqual(await refusalOf(failing), { status: 409, code: "EntityAlreadyExists" });
    assert.equal((await collect(table.listEntities())).length, 3);
    const many: TransactionAction[] = Array.from({ length: 101 }, (_, i) => [
      "create",
      { partitionKey: "many", rowKey: String(i) },
    ]);
    assert.deepEqual(await refusalOf(table.submitTransaction(many)), {
      status: 400,
      code: "InvalidInput",
    });
    await table.submitTransaction(many.slice(0, 100));
  });

  it("stores access policies and signs with them", async () => {
    const table = await newTable();
    // The client sends whole seconds.
    const expiry = new Date(Math.floor(Date.now() / 1000) * 1000 + 3_600_000);
    await table.setAccessPolicy([
      { id: "readers", accessPolicy: { expiry, permission: "r", start: new Date(0) } },
    ]);
    const [policy] = await table.getAccessPolicy();
    assert.equal(policy!.id, "readers");
    assert.equal(policy!.accessPolicy?.permission, "r");
    assert.deepEqual(policy!.accessPolicy?.expiry, expiry);
    await table.createEntity({ partitionKey: "p", rowKey: "r" });
    const token = generateTableSas(table.tableName, credential, { identifier: "readers" });
    const reader = new TableClient(
      target.url,
      table.tableName,
      new AzureSASCredential(token),
      options,
    );
    assert.equal((await reader.getEntity("p", "r")).rowKey, "r");
    assert.deepEqual(await refusalOf(reader.createEntity({ partitionKey: "p", rowKey: "x" })), {
      status: 403,
      code: "AuthorizationPermissionMismatch",
    });
  });

  it("signs for a range of keys, and writes transactions within it", async () => {
    const table = await newTable();
    const token = generateTableSas(table.tableName, credential, {
      permissions: { query: true, add: true },
      startPartitionKey: "b",
      endPartitionKey: "c",
      expiresOn: new Date(Date.now() + 3_600_000),
    });
    const holder = new TableClient(
      target.url,
      table.tableName,
      new AzureSASCredential(token),
      options,
    );
    await holder.submitTransaction([["create", { partitionKey: "b", rowKey: "1" }]]);
    assert.deepEqual(
      await refusalOf(holder.submitTransaction([["create", { partitionKey: "d", rowKey: "1" }]])),
      {
        status: 403,
        code: "AuthorizationFailure",
      },
    );
    await table.createEntity({ partitionKey: "a", rowKey: "1" });
    assert.deepEqual(
      (await collect(holder.listEntities())).map(({ partitionKey }) => partitionKey),
      ["b"],
    );
  });

  it("signs for the account", async () => {
    const token = generateAccountSas(credential, {
      permissions: { list: true, query: true },
      expiresOn: new Date(Date.now() + 3_600_000),
    });
    const table = await newTable();
    await table.createEntity({ partitionKey: "p", rowKey: "r" });
    const holder = new TableServiceClient(target.url, new AzureSASCredential(token), options);
    const names = await collect(holder.listTables());
    assert.equal(
      names.some(({ name }) => name === table.tableName),
      true,
    );
    assert.deepEqual(await refusalOf(holder.createTable("Mine")), {
      status: 403,
      code: "AuthorizationPermissionMismatch",
    });
  });
});
