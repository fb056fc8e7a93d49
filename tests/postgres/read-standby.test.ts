import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { EngineError } from "@rowhouse/server/engine/engine";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import { openStandbyEngine } from "@rowhouse/server/engine/postgres/standby-engine";
import { LocalServer } from "@rowhouse/server/engine/postgres/test-server";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { TableWire } from "../wire/table-wire.ts";

const ACCOUNT = "devstoreaccount1";

describe("A front end with --readStandby", () => {
  let primary: LocalServer;
  let standby: LocalServer;
  let front: RowhouseProcess;
  let own: TableWire;
  let secondary: TableWire;
  let end: () => void;

  before(async () => {
    primary = await LocalServer.create();
    await primary.start();
    await primary.run("CREATE DATABASE store");
    await primary.stop();
    standby = await primary.copy();
    standby.becomeStandbyOf(primary, "second");
    await primary.start();
    await standby.start();
    const url = `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/store`;
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    front = await new Promise((resolve, reject) => {
      withFolder(async (folder) => {
        resolve(await startRowhouse(folder, ["--silent", "--engine", url, "--readStandby", url]));
        await ended;
      }).catch(reject);
    });
    const key = /AccountKey=([^;]+)/.exec(front.connectionString)![1]!;
    const wireTo = (name: string) =>
      new TableWire({ url: `${front.tableUrl}/${name}`, account: ACCOUNT, key });
    own = wireTo(ACCOUNT);
    secondary = wireTo(`${ACCOUNT}-secondary`);
    assert.equal((await own.send("POST", "/Tables", { body: { TableName: "Read" } })).status, 201);
  });
  after(async () => {
    own.close();
    secondary.close();
    await front.kill();
    end();
    await primary.remove();
    await standby.remove();
  });

  const path = (rowKey: string) => `/Read(PartitionKey='p',RowKey='${rowKey}')`;

  /** @returns the time of the write, in milliseconds since 1970 */
  async function write(rowKey: string, n: number): Promise<number> {
    const written = await own.send("PUT", path(rowKey), { body: { n } });
    assert.equal(written.status, 204, String(written));
    const { Timestamp } = (await own.send("GET", path(rowKey))).json() as { Timestamp: string };
    return Date.parse(Timestamp);
  }

  async function read(wire: TableWire, rowKey: string): Promise<unknown> {
    const answer = await wire.send("GET", path(rowKey));
    if (answer.status === 404) return undefined;
    assert.equal(answer.status, 200, String(answer));
    return (answer.json() as { n: number }).n;
  }

  async function statistics(): Promise<{ status: string; lastSyncTime: string }> {
    const answer = await secondary.sendXml("GET", "/?restype=service&comp=stats");
    const pattern = /<Status>(.*)<\/Status><LastSyncTime(?: \/|>(.*)<\/LastSyncTime)>/;
    const found = pattern.exec(answer.text);
    assert.ok(found, String(answer));
    return { status: found[1]!, lastSyncTime: found[2] ?? "" };
  }

  /** Writes until the standby says that it has everything from before `time`. */
  async function untilSynced(time: number): Promise<void> {
    for (let n = 0; ; n++) {
      const { status, lastSyncTime } = await statistics();
      if (status === "live" && Date.parse(lastSyncTime) >= time) return;
      await write("another", n);
    }
  }

  it("reads the standby at the secondary address, and what was written before its LastSyncTime is there", async () => {
    await untilSynced((await write("r", 1)) + 1);
    assert.equal(await read(secondary, "r"), 1);
    await standby.run("SELECT pg_wal_replay_pause()");
    const paused = () => standby.run("SELECT pg_get_wal_replay_pause_state()");
    while ((await paused())[0]![0] !== "paused") await new Promise(setImmediate);
    const at = await write("r", 2);
    assert.deepEqual([await read(own, "r"), await read(secondary, "r")], [2, 1]);
    const { status, lastSyncTime } = await statistics();
    assert.equal(status, "live");
    assert.ok(Date.parse(lastSyncTime) <= at, `${lastSyncTime}, although ${at} is missing`);
    await standby.run("SELECT pg_wal_replay_resume()");
    await untilSynced(at + 1);
    assert.equal(await read(secondary, "r"), 2);
    const listed = await secondary.send("GET", "/Read()?$filter=RowKey%20eq%20'r'");
    assert.equal(listed.items().length, 1, String(listed));
  });

  it("refuses writes at the secondary address", async () => {
    for (const [verb, at, body] of [
      ["PUT", path("r"), { n: 3 }],
      ["DELETE", path("r"), undefined],
      ["POST", "/Tables", { TableName: "Other" }],
    ] as const) {
      const headers = verb === "DELETE" ? { "If-Match": "*" } : {};
      const refused = await secondary.send(verb, at, { body, headers });
      assert.equal(refused.status, 403, String(refused));
      assert.match(refused.text, /InsufficientAccountPermissions/);
    }
    assert.equal(await read(own, "r"), 2);
  });

  it("says that the secondary is unavailable while no standby answers, and serves from the primary", async () => {
    await standby.stop("immediate");
    assert.deepEqual(await statistics(), { status: "unavailable", lastSyncTime: "" });
    assert.equal(await read(own, "r"), 2);
    await standby.start();
    await untilSynced(0);
    assert.equal(await read(secondary, "r"), 2);
  });

  it("reads the standby while the primary is away", async () => {
    await primary.stop("immediate");
    assert.equal(await read(secondary, "r"), 2);
    await primary.start();
  });

  it("never reads a primary in place of a standby", async () => {
    const engine = await openPostgresEngine({ url: primary.url("store") });
    const other = openStandbyEngine(engine, { url: primary.url("store"), timeoutMs: 500 });
    const isUnavailable = (error: unknown) =>
      error instanceof EngineError && /is not a standby/.test(error.message);
    const key = { partition: Buffer.from("p"), sort: Buffer.from("s") };
    await assert.rejects(async () => other.get([key]), isUnavailable);
    const following = openStandbyEngine(engine, { url: standby.url("store") });
    assert.deepEqual(await following.get([key]), [undefined]);
    await Promise.all([engine, other, following].map((each) => each.close()));
  });
});
