import assert from "node:assert/strict";
import { cpSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { TableClient } from "@azure/data-tables";
import { QueueServiceClient } from "@azure/storage-queue";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { checkBlobSample } from "./blob-sample.ts";
import { SAMPLE_ENTITIES } from "./sample.ts";

const here = fileURLToPath(new URL(".", import.meta.url));

describe("The current server", () => {
  const formats = readdirSync(here).filter((name) => name.startsWith("format-"));
  for (const format of formats.filter((name) => name.endsWith("-blobs"))) {
    it(`opens the blobs of ${format}, reads what was written, and writes on`, async () => {
      await withFolder(async (folder) => {
        cpSync(join(here, format), folder, { recursive: true });
        const server = await startRowhouse(folder, ["--silent"]);
        try {
          await checkBlobSample(server.connectionString);
        } finally {
          assert.equal(await server.stop(), 0);
        }
      });
    });
  }

  for (const format of formats.filter((name) => !name.endsWith("-blobs"))) {
    it(`opens the tables and queues of ${format}, reads what was written, and writes on`, async () => {
      await withFolder(async (folder) => {
        cpSync(join(here, format), folder, { recursive: true });
        const server = await startRowhouse(folder, ["--silent"]);
        try {
          const table = TableClient.fromConnectionString(server.connectionString, "Sample", {
            allowInsecureConnection: true,
          });
          const found = [];
          for await (const { etag, timestamp, ...entity } of table.listEntities({
            disableTypeConversion: false,
          })) {
            assert.ok(etag && timestamp, "an entity without its ETag");
            found.push(entity);
          }
          assert.deepEqual(
            found.map(({ partitionKey, rowKey }) => `${partitionKey}/${rowKey}`),
            SAMPLE_ENTITIES.map(({ partitionKey, rowKey }) => `${partitionKey}/${rowKey}`),
          );
          const [empty, text, half, big, id] = found;
          assert.equal(empty?.kind, "empty keys");
          assert.deepEqual([text?.text, text?.whole, text?.yes], ['æøå 𝒳 "quoted"', 5, true]);
          assert.deepEqual([half?.half, half?.when], [1.5, new Date("2012-11-10T03:04:05.200Z")]);
          assert.equal(big?.big, 9007199254740993n);
          assert.deepEqual(id?.id, { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" });
          await table.upsertEntity({ partitionKey: "p", rowKey: "1", later: true }, "Merge");
          const queue = QueueServiceClient.fromConnectionString(
            server.connectionString,
          ).getQueueClient("sample");
          assert.equal((await queue.getProperties()).metadata?.owner, "upgrade");
          assert.equal(
            (await queue.peekMessages()).peekedMessageItems[0]?.messageText,
            "still here",
          );
        } finally {
          assert.equal(await server.stop(), 0);
        }
      });
    });
  }
});
