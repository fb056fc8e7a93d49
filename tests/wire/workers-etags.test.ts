import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseDateTime } from "@rowhouse/protocol/date-time";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { KEY, StorageWire } from "./storage-wire.ts";
import { TableWire } from "./table-wire.ts";

const WRITES = 20;
/** This many processes have no version in common: `VersionClock.takeSlot`. */
const PLACES = 16n;
const TICKS_PER_MICROSECOND = 10n;

// When two workers deleted and created one thing in turns, 2 to 20 ETags of 3,000 were repeated. Showing that
// takes half a minute; that each worker uses its own residue class shows immediately.
describe("Two workers on one data folder", () => {
  it("give entities and blobs no ETag that the other could give", async () => {
    await withFolder(async (folder) => {
      const server = await startRowhouse(folder, ["--silent", "--workers", "2"]);
      const account = DEVELOPMENT_ACCOUNT.name;
      const target = { url: `${server.tableUrl}/${account}`, account, key: KEY };
      // Connections are dealt in turn.
      const tables = [new TableWire(target), new TableWire(target)];
      const blobs = [new StorageWire(server.blobUrl, ""), new StorageWire(server.blobUrl, "")];
      try {
        await tables[0]!.send("POST", "/Tables", { body: { TableName: "Shared" } });
        await blobs[0]!.send("PUT", "/shared?restype=container");
        const ofEntities = tables.map((wire) => async (write: number) => {
          const body = { PartitionKey: "p", RowKey: `${write}-${tables.indexOf(wire)}` };
          const answer = await wire.send("POST", "/Shared", { body });
          const [, text = ""] =
            /'(.*)'/.exec(decodeURIComponent(answer.header("etag") ?? "")) ?? [];
          return parseDateTime(text) ?? 0n;
        });
        await assertApart(ofEntities);
        const ofBlobs = blobs.map((wire) => async () => {
          const headers = { "x-ms-blob-type": "BlockBlob" };
          const answer = await wire.send("PUT", "/shared/blob", { headers });
          return BigInt((answer.header("etag") ?? "").replaceAll('"', ""));
        });
        await assertApart(ofBlobs);
      } finally {
        for (const wire of [...tables, ...blobs]) wire.close();
        await server.stop();
      }
    });
  });
});

/** @param writers each writes an entity or blob through its own worker, and returns the ticks in its ETag */
async function assertApart(writers: ((write: number) => Promise<bigint>)[]): Promise<void> {
  const places = await Promise.all(
    writers.map(async (write) => {
      const seen = new Set<bigint>();
      for (let i = 0; i < WRITES; i++) {
        seen.add(((await write(i)) / TICKS_PER_MICROSECOND) % PLACES);
      }
      return [...seen];
    }),
  );
  assert.deepEqual(
    places.map(({ length }) => length),
    [1, 1],
  );
  assert.notDeepEqual(places[0], places[1]);
}
