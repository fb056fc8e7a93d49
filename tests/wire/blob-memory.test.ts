import assert from "node:assert/strict";
import { createHash, type Hash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describe, it } from "node:test";
import {
  BlobSASPermissions,
  BlobServiceClient,
  type BlockBlobClient,
  type ContainerClient,
} from "@azure/storage-blob";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";

const MIB = 1_048_576;
/** The promise is about 1024 MiB; the short form also notices a server that holds content. */
const mib = Number(process.env.BLOB_MEMORY_MIB ?? 160);
/**
 * A server must stay below 200 MB. Compiled, it starts with 75 MB; here it runs from its sources, whose loader
 * needs 50 MB more.
 */
const GROWTH_MB_MAX = 200 - 75;

describe(`A server that receives and sends ${mib} MiB (BLOB_MEMORY_MIB sets it)`, () => {
  it("holds only a small part in memory when a client uploads in blocks and downloads", async () => {
    await withServer(async (container, measure) => {
      const blob = container.getBlockBlobClient("blocks");
      const sent = createHash("sha256");
      const stream = Readable.from(parts(sent));
      await measure("up in blocks of 8 MiB", () => blob.uploadStream(stream, 8 * MIB, 4));
      const digest = sent.digest("hex");
      await measure("down in one answer", async () =>
        assert.equal(await digestOf(blob, 0), digest),
      );
      await measure("down in four ranges at once", () => readSideBySide(blob));
    });
  });

  it("holds only a small part in memory when a client uploads in one request and downloads in one answer", async () => {
    await withServer(async (container, measure) => {
      const blob = container.getBlockBlobClient("whole");
      const url = await blob.generateSasUrl({
        permissions: BlobSASPermissions.parse("cw"),
        expiresOn: new Date(Date.now() + 3_600_000),
      });
      const sent = createHash("sha256");
      await measure("up in one request", () => put(url, sent));
      const digest = sent.digest("hex");
      await measure("down in one answer", async () =>
        assert.equal(await digestOf(blob, 0), digest),
      );
    });
  });
});

type Measure = (what: string, work: () => Promise<unknown>) => Promise<void>;

/** A separate server, on LMDB and files, whose memory is checked after each piece of work. */
async function withServer(
  work: (container: ContainerClient, measure: Measure) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const server = await startRowhouse(folder, ["--silent"]);
    const idleMb = memoryOf(server.pid).peakMb;
    try {
      const service = BlobServiceClient.fromConnectionString(server.connectionString);
      const { containerClient } = await service.createContainer("docs");
      await work(containerClient, async (what, piece) => {
        const start = performance.now();
        await piece();
        const rate = mib / ((performance.now() - start) / 1000);
        const { peakMb, privateMb } = memoryOf(server.pid);
        console.log(
          `${mib} MiB ${what}: ${Math.round(rate)} MiB/s, ` +
            `from ${idleMb} to ${peakMb} MB resident at most, now ${privateMb} MB private`,
        );
        assert.ok(peakMb - idleMb < GROWTH_MB_MAX, `${what}: from ${idleMb} to ${peakMb} MB`);
      });
    } finally {
      assert.equal(await server.stop(), 0);
    }
  });
}

/** In MB of 1,000,000 bytes. Zero where there is no /proc. */
function memoryOf(pid: number): { peakMb: number; privateMb: number } {
  const path = `/proc/${pid}/status`;
  const status = existsSync(path) ? readFileSync(path, "utf8") : "";
  const mb = (name: string) => {
    const [, kib = "0"] = new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status) ?? [];
    return Math.round((Number(kib) * 1024) / 1e6);
  };
  return { peakMb: mb("VmHWM"), privateMb: mb("RssAnon") };
}

/** Each MiB differs from the others. */
function* parts(digest: Hash): Generator<Buffer> {
  for (let i = 0; i < mib; i++) {
    const part = Buffer.alloc(MIB, `${i} `);
    digest.update(part);
    yield part;
  }
}

async function digestOf(blob: BlockBlobClient, offset: number, count?: number): Promise<string> {
  const { readableStreamBody } = await blob.download(offset, count);
  const digest = createHash("sha256");
  await pipeline(readableStreamBody!, digest);
  return digest.digest("hex");
}

async function readSideBySide(blob: BlockBlobClient): Promise<void> {
  const quarter = (mib / 4) * MIB;
  await Promise.all([0, 1, 2, 3].map((i) => digestOf(blob, i * quarter, quarter)));
}

async function put(url: string, digest: Hash): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const headers = { "x-ms-blob-type": "BlockBlob", "Content-Length": mib * MIB };
    const upload: Writable = request(url, { method: "PUT", headers }, (answer) => {
      answer.resume();
      if (answer.statusCode === 201) resolve();
      else reject(new Error(`The upload was answered ${answer.statusCode}.`));
    }).on("error", reject);
    pipeline(Readable.from(parts(digest)), upload).catch(reject);
  });
}
