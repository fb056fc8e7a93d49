import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { withFolder } from "../support/rowhouse-process.ts";

const FREE = ["--inMemoryPersistence", "--tablePort=0", "--queuePort=0", "--blobPort=0"];

/** A server with a Node program next to it, which has a client of a table. */
function serveWith(program: string, flags: readonly string[] = []): RowhouseCommand {
  const client = `
    import { TableClient } from "@azure/data-tables";
    const connection = process.env.AZURE_STORAGE_CONNECTION_STRING;
    const table = TableClient.fromConnectionString(connection, "Films", { allowInsecureConnection: true });
    await table.createTable();`;
  const node = [process.execPath, "--input-type=module", "--eval", client + program];
  return new RowhouseCommand(["serve", ...FREE, ...flags, "--", ...node]);
}

describe("A command next to a server", () => {
  it("finds the server by its environment, and its exit code becomes the server's", async () => {
    const program = `
      await table.createEntity({ partitionKey: "p", rowKey: "r" });
      console.log("There are", (await table.listEntities().byPage().next()).value.length);
      process.exitCode = 3;`;
    const command = serveWith(program);
    assert.equal(await command.exited, 3, command.stderr);
    assert.match(command.stdout, /^There are 1$/m);
  });

  it("receives the served services and the first account in its environment", async () => {
    const print = "console.log(process.env.AZURE_STORAGE_CONNECTION_STRING)";
    const node = [process.execPath, "--eval", print];
    const flags = ["--inMemoryPersistence", "--queueOnly", "--queuePort=0"];
    const accounts = { AZURITE_ACCOUNTS: "first1:a2V5;second:a2V5" };
    const command = new RowhouseCommand(["serve", ...flags, "--", ...node], accounts);
    assert.equal(await command.exited, 0, command.stderr);
    assert.match(
      command.stdout,
      /^DefaultEndpointsProtocol=http;AccountName=first1;AccountKey=a2V5;QueueEndpoint=http:\/\/127\.0\.0\.1:\d+\/first1$/m,
    );
  });

  it("never receives a disabled account", async () => {
    await withFolder(async (folder) => {
      const file = join(folder, "accounts.json");
      const serve = (disabled: readonly boolean[]) => {
        const keys = ["a2V5"];
        const accounts = disabled.map((disabled, i) => ({ name: `account${i}`, keys, disabled }));
        writeFileSync(file, JSON.stringify({ accounts }));
        const print = "console.log(process.env.AZURE_STORAGE_CONNECTION_STRING)";
        const node = [process.execPath, "--eval", print];
        return new RowhouseCommand(["serve", ...FREE, "--config", file, "--", ...node]);
      };
      const command = serve([true, false]);
      assert.equal(await command.exited, 0, command.stderr);
      assert.match(command.stdout, /;AccountName=account1;/);
      const refused = serve([true]);
      assert.equal(await refused.exited, 2);
      assert.match(refused.stderr, /cannot start: All accounts are disabled/);
    });
  });

  it("makes the server fail if a query exceeded the scan budget, although the command succeeded", async () => {
    await withFolder(async (folder) => {
      const scan = "for await (const _ of table.listEntities());";
      const report = join(folder, "report.json");
      const budget = ["--scan-budget", "no table scan", "--scan-report", report];
      const command = serveWith(scan, budget);
      assert.equal(await command.exited, 1, command.stderr);
      assert.match(command.stdout, /1 over budget/);
      assert.equal(await serveWith("", budget).exited, 0);
    });
  });

  it("is ended by SIGTERM when the server is", async () => {
    const command = serveWith(`console.log("up"); setInterval(() => {}, 1000);`);
    await command.until(/^up$/m);
    command.signal("SIGTERM");
    assert.equal(await command.exited, 128 + 15);
  });

  it("receives SIGHUP when the server does", async () => {
    const program = `
      process.once("SIGHUP", () => console.log("hung up") || process.exit());
      console.log("up");
      setInterval(() => {}, 1000);`;
    const command = serveWith(program);
    await command.until(/^up$/m);
    command.signal("SIGHUP");
    // It was ended by the signal itself.
    assert.equal(await command.exited, null);
    assert.match(command.stdout, /^hung up$/m);
  });

  for (const { what, args, reason } of [
    {
      what: "does not exist",
      args: ["--", "no-such-command"],
      reason: /^rowhouse: Cannot run the command: spawn no-such-command ENOENT$/m,
    },
    {
      what: "is not preceded by --",
      args: ["npm"],
      reason: /unexpected argument 'npm'; .* after --/,
    },
    {
      what: "would run next to several server processes",
      args: ["--workers=2", "--", "true"],
      reason: /single server process: leave --workers out/,
    },
  ]) {
    it(`is refused if it ${what}`, async () => {
      const flags = args[0] === "--workers=2" ? FREE.slice(1) : FREE;
      const command = new RowhouseCommand(["serve", ...flags, ...args]);
      assert.equal(await command.exited, 2);
      assert.match(command.stderr, reason);
    });
  }
});
