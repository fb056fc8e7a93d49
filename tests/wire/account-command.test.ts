import assert from "node:assert/strict";
import { chmodSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { TableServiceClient } from "@azure/data-tables";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { withFolder } from "../support/rowhouse-process.ts";

async function printed(args: readonly string[], environment = {}): Promise<string> {
  const command = new RowhouseCommand(args, environment);
  assert.equal(await command.exited, 0, command.stderr);
  return command.stdout.trimEnd();
}

async function refusal(args: readonly string[]): Promise<string> {
  const command = new RowhouseCommand(args);
  assert.equal(await command.exited, 2);
  return command.stderr;
}

describe("rowhouse account", () => {
  it("creates an account that a server serves and an official client reaches by its connection string", () =>
    withFolder(async (folder) => {
      const config = ["--config", join(folder, "rowhouse.json")];
      const key = await printed(["account", "create", "alpha", ...config]);
      assert.equal(Buffer.from(key, "base64").length, 64);
      assert.equal(statSync(config[1]!).mode & 0o777, 0o600);
      const server = new RowhouseCommand([
        ...["--inMemoryPersistence", "--tableOnly", "--tablePort", "0", ...config],
      ]);
      const [, port = ""] = await server.until(/Table service is successfully .*:(\d+)$/m);
      const connection = await printed(["connection-string", "--tablePort", port, ...config]);
      const client = TableServiceClient.fromConnectionString(connection, {
        allowInsecureConnection: true,
      });
      await client.createTable("Films");
      server.signal("SIGTERM");
      assert.equal(await server.exited, 0);
    }));

  it("renews one key, leaves the other valid, and keeps the file's mode and everything else in it", () =>
    withFolder(async (folder) => {
      const file = join(folder, "rowhouse.json");
      const accounts = [{ name: "alpha", keys: ["b25l", "dHdv"], disabled: true }];
      const bearer = { staticTokens: [] };
      writeFileSync(file, JSON.stringify({ bearer, accounts }));
      chmodSync(file, 0o640);
      const key = await printed(["account", "key", "alpha", "--renew", "--config", file]);
      const written = JSON.parse(readFileSync(file, "utf8"));
      assert.deepEqual(written.accounts, [{ name: "alpha", keys: [key, "dHdv"], disabled: true }]);
      assert.deepEqual(written.bearer, bearer);
      assert.equal(statSync(file).mode & 0o777, 0o640);
      const second = ["account", "key", "alpha", "--second", "--config", file];
      assert.equal(await printed(second), "dHdv");
      assert.equal(await printed(["account", "list", "--config", file]), "alpha  2 keys, disabled");
    }));

  it("refuses what serve would refuse, and leaves the file as it was", () =>
    withFolder(async (folder) => {
      const file = join(folder, "rowhouse.json");
      const before = JSON.stringify({ accounts: [{ name: "alpha", keys: ["b25l"] }] });
      writeFileSync(file, before);
      const create = (name: string) => refusal(["account", "create", name, "--config", file]);
      assert.match(await create("Alpha"), /3 to 24 lower-case letters and digits are allowed/);
      assert.match(await create("alpha"), /There is an account "alpha" already/);
      assert.match(
        await refusal(["account", "key", "beta", "--config", file]),
        /There is no account "beta"; the accounts are: alpha\./,
      );
      assert.match(await refusal(["account", "create", "beta"]), /pass --config FILE/);
      // Without a file, the account that everybody knows would be taken for the one that was meant.
      const missing = ["--config", join(folder, "missing.json")];
      for (const command of [["connection-string"], ["account", "list"]])
        assert.match(
          await refusal([...command, ...missing]),
          /There is no file .*missing\.json; rowhouse account create NAME/,
        );
      assert.equal(readFileSync(file, "utf8"), before);
    }));
});

describe("rowhouse connection-string", () => {
  const accounts = { AZURITE_ACCOUNTS: "alpha:b25l" };
  const text = (host: string) =>
    `DefaultEndpointsProtocol=http;AccountName=alpha;AccountKey=b25l;TableEndpoint=http://${host}:10002/alpha;QueueEndpoint=http://${host}:10001/alpha;BlobEndpoint=http://${host}:10000/alpha`;
  const formats: Readonly<Record<string, string>> = {
    text: text("127.0.0.1"),
    env: `AZURE_STORAGE_CONNECTION_STRING='${text("127.0.0.1")}'`,
    docker: `AZURE_STORAGE_CONNECTION_STRING=${text("host.docker.internal")}`,
    dotnet: JSON.stringify({ ConnectionStrings: { AzureStorage: text("127.0.0.1") } }, null, 2),
    json: JSON.stringify(
      {
        connectionString: text("127.0.0.1"),
        account: "alpha",
        key: "b25l",
        endpoints: {
          blob: "http://127.0.0.1:10000/alpha",
          queue: "http://127.0.0.1:10001/alpha",
          table: "http://127.0.0.1:10002/alpha",
        },
      },
      null,
      2,
    ),
  };
  for (const [format, expected] of Object.entries(formats)) {
    it(`prints the format ${format}`, async () => {
      assert.equal(await printed(["connection-string", "--format", format], accounts), expected);
    });
  }
});
