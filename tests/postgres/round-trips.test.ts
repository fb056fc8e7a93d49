import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { parseAccounts } from "@rowhouse/server/auth/account-settings";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import { Relay } from "@rowhouse/server/engine/postgres/test-relay";
import { type TestServer, testServer } from "@rowhouse/server/engine/postgres/test-server";
import { type RunningServer, startServer } from "@rowhouse/server/server";
import { TableWire } from "../wire/table-wire.ts";

const ACCOUNT = "devstoreaccount1";
const KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const TABLE = "Entities";
/** What runs in the background may add round trips to a request, but not to each of these. */
const REPETITIONS = 5;

describe("A request waits for the database", () => {
  let database: TestServer;
  let url: string;
  let relay: Relay;
  let front: RunningServer;
  let wire: TableWire;
  let trips = 0;
  let row = 0;

  before(async () => {
    database = await testServer();
    url = await database.createDatabase();
    relay = await Relay.open(url);
    countTrips();
    front = await startServer({
      accounts: parseAccounts(undefined),
      engine: await openPostgresEngine({ url: relay.url, allowUnsafe: true }),
      listen: { table: { host: "127.0.0.1", port: 0 } },
    });
    wire = new TableWire({ url: `${front.urls.table}/${ACCOUNT}`, account: ACCOUNT, key: KEY });
    await wire.send("POST", "/Tables", { body: { TableName: TABLE } });
    await transaction("many", 100, "X".repeat(700));
  });
  after(async () => {
    wire.close();
    await front.close();
    await relay.close();
    await database.dropDatabase(url);
    await database.stop();
  });

  /** A client waits after each Flush and each Sync, but not after the Sync of a scan that has its rows. */
  function countTrips(): void {
    const flushed = new Set<number>();
    relay.onRequest = (message, connection) => {
      const code = String.fromCharCode(message[0]!);
      if (code === "H") flushed.add(connection);
      if (code === "H" || (code === "S" && !flushed.delete(connection))) trips++;
      return message;
    };
  }

  async function transaction(partitionKey: string, count: number, text: string): Promise<void> {
    let body = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n";
    for (let index = 0; index < count; index++) {
      const entity = {
        PartitionKey: partitionKey,
        RowKey: `${String(row++).padStart(6, "0")}`,
        text,
      };
      const json = JSON.stringify(entity);
      body +=
        "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n" +
        `POST ${front.urls.table}/${ACCOUNT}/${TABLE} HTTP/1.1\r\nContent-Type: application/json\r\n` +
        `Prefer: return-no-content\r\nContent-Length: ${json.length}\r\n\r\n${json}\r\n`;
    }
    const headers = { "Content-Type": "multipart/mixed; boundary=b" };
    const answer = await wire.send("POST", "/$batch", {
      body: `${body}--c--\r\n--b--\r\n`,
      headers,
    });
    assert.match(answer.text, /204 No Content/);
    assert.doesNotMatch(answer.text, /HTTP\/1.1 4/);
  }

  async function send(method: string, path: string, status: number, body?: object): Promise<void> {
    const answer = await wire.send(method, path, { body });
    assert.equal(answer.status, status, String(answer));
  }

  async function assertTrips(expected: number, run: () => Promise<void>): Promise<void> {
    await run();
    let fewest = Number.POSITIVE_INFINITY;
    for (let turn = 0; turn < REPETITIONS; turn++) {
      trips = 0;
      await run();
      fewest = Math.min(fewest, trips);
    }
    assert.equal(fewest, expected);
  }

  const list = (filter: string) => `/${TABLE}()?$filter=${encodeURIComponent(filter)}`;
  const hundred = "PartitionKey eq 'many' and RowKey ge '000000' and RowKey le '000099'";

  it("once for an entity", () =>
    assertTrips(1, () => send("GET", `/${TABLE}(PartitionKey='many',RowKey='000007')`, 200)));

  it("twice for a range of a hundred entities", async () => {
    await assertTrips(2, () => send("GET", list(hundred), 200));
    await assertTrips(2, () => send("GET", `${list(hundred)}&$top=100`, 200));
    await assertTrips(2, () => send("GET", `${list(hundred)}&$top=50`, 200));
    await assertTrips(2, () => send("GET", list(`${hundred} and text eq 'none'`), 200));
  });

  it("once for an insert, an upsert, a deletion and a transaction of a hundred", async () => {
    const entity = () => ({ PartitionKey: "one", RowKey: `${row++}` });
    await assertTrips(1, () => send("POST", `/${TABLE}`, 201, entity()));
    await assertTrips(1, () => send("PUT", `/${TABLE}(PartitionKey='one',RowKey='u')`, 204, {}));
    await assertTrips(1, () => transaction("some", 100, "x"));
    const deletion = async (at: string) => {
      const answer = await wire.send("DELETE", at, { headers: { "If-Match": "*" } });
      assert.equal(answer.status, 204, String(answer));
    };
    let next = 0;
    await assertTrips(1, () =>
      deletion(`/${TABLE}(PartitionKey='many',RowKey='${String(next++).padStart(6, "0")}')`),
    );
  });

  it("twice for a merge, which reads what it changes", () =>
    assertTrips(2, () => send("PATCH", `/${TABLE}(PartitionKey='one',RowKey='u')`, 204, { n: 1 })));
});

describe("A table that another process removes", () => {
  let database: TestServer;
  let url: string;
  const fronts: RunningServer[] = [];
  const wires: TableWire[] = [];

  before(async () => {
    database = await testServer();
    url = await database.createDatabase();
    for (let count = 0; count < 2; count++) {
      const front = await startServer({
        accounts: parseAccounts(undefined),
        engine: await openPostgresEngine({ url, allowUnsafe: true }),
        listen: { table: { host: "127.0.0.1", port: 0 } },
      });
      fronts.push(front);
      const account = ACCOUNT;
      wires.push(new TableWire({ url: `${front.urls.table}/${account}`, account, key: KEY }));
    }
  });
  after(async () => {
    for (const wire of wires) wire.close();
    for (const front of fronts) await front.close();
    await database.dropDatabase(url);
    await database.stop();
  });

  it("is not written, by none of the operations that do not read it first", async () => {
    const [one, other] = wires as [TableWire, TableWire];
    const at = `/${TABLE}(PartitionKey='p',RowKey='r')`;
    const entity = { PartitionKey: "p", RowKey: "r" };
    const create = () => one.send("POST", "/Tables", { body: { TableName: TABLE } });
    const remove = () => one.send("DELETE", `/Tables('${TABLE}')`);
    const writes = [
      () => other.send("POST", `/${TABLE}`, { body: entity }),
      () => other.send("PUT", at, { body: {} }),
      () => other.send("PUT", at, { body: {}, headers: { "If-Match": "*" } }),
      () => other.send("DELETE", at, { headers: { "If-Match": "*" } }),
    ];
    for (const write of writes) {
      await create();
      await other.send("POST", `/${TABLE}`, { body: { ...entity, RowKey: "seen" } });
      await remove();
      assert.match((await write()).text, /TableNotFound/);
      await create();
      assert.equal((await one.send("GET", `/${TABLE}()`)).items().length, 0);
      await remove();
    }
    await create();
    await other.send("POST", `/${TABLE}`, { body: { ...entity, RowKey: "seen" } });
    await remove();
    await create();
    assert.equal((await writes[0]!()).status, 201);
    assert.equal((await one.send("GET", `/${TABLE}()`)).items().length, 1);
    await remove();
  });

  it("is not read: a page of what it had is not answered", async () => {
    const [one, other] = wires as [TableWire, TableWire];
    const create = () => one.send("POST", "/Tables", { body: { TableName: TABLE } });
    await create();
    const entity = { PartitionKey: "p", RowKey: "r" };
    assert.equal((await one.send("POST", `/${TABLE}`, { body: entity })).status, 201);
    const read = () => other.send("GET", `/${TABLE}()`);
    assert.equal((await read()).items().length, 1);

    await one.send("DELETE", `/Tables('${TABLE}')`);
    assert.equal((await read()).status, 404);

    await create();
    assert.equal((await read()).items().length, 0);
    await one.send("DELETE", `/Tables('${TABLE}')`);
    await create();
    assert.equal((await one.send("POST", `/${TABLE}`, { body: entity })).status, 201);
    assert.equal((await read()).items().length, 1);
  });
});
