import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { RestError, TableClient } from "@azure/data-tables";
import { LocalServer, runAt } from "@rowhouse/server/engine/postgres/test-server";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";

describe("An operator with one PostgreSQL", () => {
  let database: LocalServer;
  before(async () => {
    database = await LocalServer.create();
    await database.start();
  });
  after(() => database.remove());

  it("sees the schema with --dry-run, is told that it is missing, installs it, checks it and sees every plan", async () => {
    const url = await database.createDatabase();
    const shown = await run("engine", "install", url, "--dry-run");
    assert.match(shown.stdout, /CREATE TABLE IF NOT EXISTS rh_kv/);
    assert.match(shown.stdout, /-- GRANT SELECT, INSERT, UPDATE, DELETE ON/);
    const missing = await run("engine", "check", url);
    assert.deepEqual([missing.code, /problem +schema/.test(missing.stdout)], [1, true]);
    assert.equal((await run("engine", "install", url)).code, 0);
    const checked = await run("engine", "check", url);
    assert.equal(checked.code, 0, checked.stdout);
    assert.match(checked.stdout, /durability: .*disk/i);
    const explained = await run("engine", "explain", url);
    assert.equal(explained.code, 0, explained.stdout);
    assert.match(explained.stdout, /Index Cond: .*pk = /);
  });

  it("cannot serve from a server that may lose acknowledged writes without --allowUnsafeEngine", async () => {
    const url = await database.createDatabase();
    await runAt(url, [
      `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET synchronous_commit = off`,
    ]);
    const refused = await run("serve", "--engine", url, "--tablePort", "0");
    assert.notEqual(refused.code, 0);
    assert.match(refused.stdout + refused.stderr, /synchronous_commit/);
    await withFolder(async (folder) => {
      const front = await startRowhouse(folder, [
        "--silent",
        "--engine",
        url,
        "--allowUnsafeEngine",
      ]);
      const { status, body } = await ready(front);
      assert.deepEqual([status, body.durability], [200, "none"]);
      await front.stop();
    });
  });

  it("finds the durability of a write in the first lines of the log", async () => {
    const url = await database.createDatabase();
    const flags = ["--tablePort", "0", "--queuePort", "0", "--blobPort", "0"];
    const command = new RowhouseCommand(["serve", "--engine", url, ...flags]);
    after(() => command.signal("SIGKILL"));
    const [, durability] = await command.until(/"durability":"([^"]+)"/, "stderr");
    assert.equal(durability, "disk");
    command.signal("SIGTERM");
    await command.exited;
  });
});

describe("A front end whose primary is lost", () => {
  it("reports it, serves again once the standby is promoted, and has lost nothing acknowledged", async () => {
    const primary = await LocalServer.create();
    await primary.start();
    await primary.run("CREATE DATABASE store");
    await primary.stop();
    const standby = await primary.copy();
    standby.becomeStandbyOf(primary, "second");
    primary.configure({ synchronous_standby_names: "ANY 1 (second)" });
    await primary.start();
    await standby.start();
    const url = `postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/store`;
    try {
      await withFolder(async (folder) => {
        const front = await startRowhouse(folder, ["--silent", "--engine", url]);
        try {
          await failOver(front, primary, standby);
        } finally {
          await front.kill();
        }
      });
    } finally {
      await primary.remove();
      await standby.remove();
    }
  });
});

async function failOver(
  front: RowhouseProcess,
  primary: LocalServer,
  standby: LocalServer,
): Promise<void> {
  const table = TableClient.fromConnectionString(front.connectionString, "Ledger", {
    allowInsecureConnection: true,
    retryOptions: { maxRetries: 0 },
  });
  await table.createTable();
  const acknowledged: string[] = [];
  let row = 0;
  const write = async () => {
    const rowKey = String(row++).padStart(6, "0");
    await table.createEntity({ partitionKey: "p", rowKey });
    acknowledged.push(rowKey);
  };
  for (let i = 0; i < 20; i++) await write();
  const before = await ready(front);
  assert.deepEqual([before.status, before.body.durability], [200, "two machines"]);

  // A write in flight when the primary stops gets an error, and may have happened.
  const underWay = settled(write());
  await primary.stop("immediate");
  await underWay;
  await until(async () => (await ready(front)).status === 503);
  // A request during the outage waits, and is executed, or refused when its time is over.
  const waiting = [settled(write()), settled(table.getEntity("p", "000000"))];
  await standby.run("SELECT pg_promote()");
  await until(async () => (await ready(front)).status === 200);
  await Promise.all(waiting);
  await write();
  const found: string[] = [];
  for await (const { rowKey } of table.listEntities()) found.push(rowKey!);
  assert.deepEqual(
    acknowledged.filter((rowKey) => !found.includes(rowKey)),
    [],
    "acknowledged and lost",
  );
}

/** Accepts success, 503, or 500 for a write that may have happened. */
async function settled(request: Promise<unknown>): Promise<void> {
  try {
    await request;
  } catch (error) {
    assert.ok(error instanceof RestError, String(error));
    assert.ok(error.statusCode === 503 || error.statusCode === 500, String(error.statusCode));
  }
}

async function ready({ tableUrl }: RowhouseProcess) {
  const answer = await fetch(`${tableUrl}/readyz`);
  return { status: answer.status, body: (await answer.json()) as Record<string, string> };
}

async function run(...args: string[]) {
  const command = new RowhouseCommand(args);
  const code = await command.exited;
  const { stderr, stdout } = command;
  return { code, stderr, stdout };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setImmediate(resolve));
}
