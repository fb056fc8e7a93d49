import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import type { Key } from "@rowhouse/server/engine/engine";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { startRowhouse } from "rowhouse/testing";
import { RowhouseCommand } from "../support/rowhouse-command.ts";
import { withFolder } from "../support/rowhouse-process.ts";

const KEY: Key = { partition: Uint8Array.of(200), sort: Uint8Array.of(1) };

async function write(path: string, value: string): Promise<void> {
  const engine = await openLmdbEngine({ path });
  const puts = [{ key: KEY, value: Buffer.from(value) }];
  await engine.commit({ version: engine.nextVersion(), checks: [], puts, deletes: [] });
  await engine.close();
}

async function read(path: string): Promise<string> {
  const engine = await openLmdbEngine({ path });
  const [entry] = await engine.get([KEY]);
  const text = Buffer.from(entry?.value ?? []).toString("utf8");
  await engine.close();
  return text;
}

async function run(args: readonly string[], exitCode = 0): Promise<string> {
  const command = new RowhouseCommand(args);
  assert.equal(await command.exited, exitCode, command.stderr);
  return command.stdout + command.stderr;
}

describe("Backups that an operator schedules", () => {
  it("are named by their time, and only the newest are kept", () =>
    withFolder(async (folder) => {
      const [data, backups] = [join(folder, "data"), join(folder, "backups")];
      await write(data, "first");
      mkdirSync(join(backups, "rowhouse-20200101T000000Z"), { recursive: true });
      mkdirSync(join(backups, "rowhouse-20210101T000000Z"));
      mkdirSync(join(backups, "of somebody else"));
      await run(["backup", "--location", data, "--to", backups, "--keep", "2"]);
      const names = readdirSync(backups).sort();
      assert.deepEqual(names.slice(0, 2), ["of somebody else", "rowhouse-20210101T000000Z"]);
      assert.match(names[2]!, /^rowhouse-\d{8}T\d{6}Z$/);
      assert.equal(names.length, 3);

      const restored = join(folder, "restored");
      await write(data, "second");
      await run(["restore", join(backups, names[2]!), "--location", restored]);
      assert.equal(await read(restored), "first");
      const refusal = await run(["restore", join(backups, names[2]!), "--location", data], 2);
      assert.match(refusal, /holds something already/);
      assert.equal(await read(data), "second");
    }));

  it("need a place: a folder to create, or one of backups", async () => {
    assert.match(
      await run(["backup"], 2),
      /Name either the folder to create, or a folder of backups/,
    );
    assert.match(await run(["backup", "one", "--to", "other"], 2), /Name either/);
  });
});

describe("Backups in a Blob endpoint", () => {
  it("are stored with their sums, restored whole, and refused when they are damaged", () =>
    withFolder(async (folder) => {
      const data = join(folder, "data");
      await using server = await startRowhouse({ engine: { path: data } });
      const containers = BlobServiceClient.fromConnectionString(server.connectionString);
      const pictures = containers.getContainerClient("pictures");
      await pictures.create();
      // Larger than a block, and in a file of its own; this one is in the data file.
      const bytes = randomBytes(9 << 20);
      await pictures.getBlockBlobClient("large").uploadData(bytes);
      await pictures.getBlockBlobClient("small").uploadData(bytes.subarray(0, 10));

      const archive = await startRowhouse();
      try {
        const backups = BlobServiceClient.fromConnectionString(
          archive.connectionString,
        ).getContainerClient("rowhouse-backups");
        const url = `${archive.urls.blob}/devstoreaccount1/rowhouse-backups`;
        await backups.create();
        await backups.getBlockBlobClient("rowhouse-20200101T000000Z/SHA256SUMS").upload("", 0);
        const flags = ["--location", data, "--keep", "1"];
        await run(["backup", "--to", archive.connectionString, ...flags]);
        const names: string[] = [];
        for await (const { name } of backups.listBlobsFlat()) names.push(name);
        assert.equal(names.length, 3, names.join());
        const [backup, ...others] = new Set(names.map((name) => name.split("/")[0]!));
        assert.match(backup!, /^rowhouse-2(?!0200101)\d{7}T\d{6}Z$/);
        assert.deepEqual(others, []);

        const restored = join(folder, "restored");
        await run(["restore", url, "--location", restored]);
        await using second = await startRowhouse({ engine: { path: restored } });
        const copy = BlobServiceClient.fromConnectionString(second.connectionString)
          .getContainerClient("pictures")
          .getBlobClient("large");
        assert.ok((await copy.downloadToBuffer()).equals(bytes));

        const content = names.find((name) => name.includes("/contents/"))!;
        await backups.getBlockBlobClient(content).uploadData(bytes);
        const again = ["restore", `${url}/${backup}`, "--location", join(folder, "again")];
        assert.match(await run(again, 2), /contents\/\S+ is damaged/);
        assert.equal(existsSync(join(folder, "again")), false);
        await backups.deleteBlob(`${backup}/SHA256SUMS`);
        assert.match(
          await run(["restore", url, "--location", join(folder, "again")], 2),
          /no complete backup/,
        );
      } finally {
        await archive.close();
      }
    }));

  it("need the URL of a container, and somebody who answers", async () => {
    const account = "http://127.0.0.1:9/devstoreaccount1";
    assert.match(await run(["backup", "--to", account], 2), /The URL must name a container/);
    assert.match(await run(["backup", "--to", `${account}/backups`], 2), /Nothing serves at/);
    assert.match(
      await run(["backup", "--to", "AccountName=a"], 2),
      /no AccountName with AccountKey/,
    );
  });
});

describe("rowhouse compact", () => {
  for (const [what, status] of [
    ["removes the old folder once the server is ready", 200],
    ["keeps both folders if the server is not ready, for it may have written", 503],
  ] as const) {
    it(`between commands that stop and start the server, ${what}`, () =>
      withFolder(async (folder) => {
        const data = join(folder, "data");
        await write(data, "kept");
        const server = createServer((_, response) => response.writeHead(status).end("its state"));
        await once(server.listen(0, "127.0.0.1"), "listening");
        const { port } = server.address() as AddressInfo;
        const note = (word: string) => `echo ${word} >> ${join(folder, "commands")}`;
        const commands = ["--stop", note("stop"), "--start", note("start")];
        const where = ["--against", `http://127.0.0.1:${port}`, "--wait", "0"];
        const isReady = status === 200;
        const output = await run(
          ["compact", "--location", data, ...commands, ...where],
          isReady ? 0 : 2,
        );
        assert.match(
          output,
          isReady ? /is ready; \S+ is removed/ : /not ready within 0 s \(its state\)/,
        );
        const ran = readFileSync(join(folder, "commands"), "utf8").trim().split("\n");
        assert.deepEqual(ran, ["stop", "start"]);
        assert.equal(await read(data), "kept");
        assert.equal(existsSync(`${data}.before-compact`), !isReady);
        assert.ok(!existsSync(`${data}.compact`));
        server.close();
      }));
  }

  it("swaps a smaller folder in, keeps the old one, and finishes what a kill interrupted", () =>
    withFolder(async (folder) => {
      const data = join(folder, "data");
      await write(data, "kept");
      await run(["compact", "--location", data]);
      assert.equal(await read(data), "kept");
      assert.equal(await read(`${data}.before-compact`), "kept");
      assert.match(await run(["compact", "--location", data], 2), /is left of an earlier run/);

      renameSync(data, `${data}.compact`);
      await run(["compact", "--location", data]);
      assert.equal(await read(data), "kept");
      assert.ok(!existsSync(`${data}.compact`));
    }));

  it("refuses a folder that is being served", () =>
    withFolder(async (folder) => {
      const data = join(folder, "data");
      const server = new RowhouseCommand(["--location", data, "--tableOnly", "--tablePort", "0"]);
      await server.until(/Table service is successfully/);
      assert.match(await run(["compact", "--location", data], 2), /is being served/);
      server.signal("SIGTERM");
      assert.equal(await server.exited, 0);
      assert.ok(!existsSync(`${data}.compact`));
    }));
});
