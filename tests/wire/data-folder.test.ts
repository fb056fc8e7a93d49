import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { BlobServiceClient } from "@azure/storage-blob";
import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { startServer } from "@rowhouse/server/server";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { openLastingEngine, runsOverPostgres } from "../support/test-engine.ts";

const KEY = Buffer.from(DEVELOPMENT_ACCOUNT.keys[0]!).toString("base64");
/** More than a row of the engine holds. */
const LARGE = 200_000;

describe("A data folder", () => {
  it("is shared by the command and an embedding program: each reads the large blobs that the other wrote", async () => {
    await withFolder(async (folder) => {
      await inProgram(folder, async (blobs) => {
        await blobs.getContainerClient("data").create();
        await put(blobs, "by-program");
      });
      const command = await startRowhouse(folder, ["--silent"]);
      try {
        const blobs = BlobServiceClient.fromConnectionString(command.connectionString);
        assert.equal(await bytesOf(blobs, "by-program"), LARGE);
        await put(blobs, "by-command");
      } finally {
        await command.stop();
      }
      await inProgram(folder, async (blobs) => {
        assert.equal(await bytesOf(blobs, "by-command"), LARGE);
      });
      if (runsOverPostgres()) return;
      const files = readdirSync(join(folder, "contents"), { recursive: true, withFileTypes: true });
      assert.equal(files.filter((each) => each.isFile()).length, 2);
    });
  });
});

/** As the server's README shows: nothing but an engine is given. */
async function inProgram(
  folder: string,
  work: (blobs: BlobServiceClient) => Promise<void>,
): Promise<void> {
  const server = await startServer({
    accounts: new Accounts([DEVELOPMENT_ACCOUNT]),
    engine: await openLastingEngine(folder),
    listen: { blob: { host: "127.0.0.1", port: 0 } },
  });
  const { name } = DEVELOPMENT_ACCOUNT;
  const endpoint = `${server.urls.blob}/${name}`;
  try {
    await work(
      BlobServiceClient.fromConnectionString(
        `DefaultEndpointsProtocol=http;AccountName=${name};AccountKey=${KEY};BlobEndpoint=${endpoint}`,
      ),
    );
  } finally {
    await server.close();
  }
}

async function put(blobs: BlobServiceClient, name: string): Promise<void> {
  const content = Buffer.alloc(LARGE, name);
  await blobs.getContainerClient("data").getBlockBlobClient(name).upload(content, LARGE);
}

async function bytesOf(blobs: BlobServiceClient, name: string): Promise<number> {
  return (await blobs.getContainerClient("data").getBlobClient(name).downloadToBuffer()).length;
}
