/**
 * Thousands of slow clients at once against a server process of its own, next to one that is not slow:
 *
 *   npm run slow-peers -- [clients of each kind, 3000] [seconds, 40] [kinds, readers,writers,halves]
 *
 * Prints the memory of the server, before, at the most, and half a minute after the slow ones have left; and the 99th
 * percentile of the other client's point queries and transactions of 400 KB, alone and among them.
 */
import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { transaction } from "./slow-peers.ts";
import { KEY, StorageWire } from "./storage-wire.ts";
import { TableWire } from "./table-wire.ts";

const [each = "3000", forSeconds = "40", ...kinds] = process.argv.slice(2);
const seconds = Number(forSeconds);
const MIB = 1 << 20;
const { name } = DEVELOPMENT_ACCOUNT;

await withFolder(async (folder) => {
  const server = await startRowhouse(folder, ["--metrics"]);
  const { tableUrl: table, blobUrl: blob } = server;
  const tables = new TableWire({ url: `${table}/${name}`, account: name, key: KEY });
  const blobs = new StorageWire(blob, "application/octet-stream");
  const memory = () => {
    const status = readFileSync(`/proc/${server.pid}/status`, "latin1");
    return Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024);
  };
  await tables.send("POST", "/Tables", { body: { TableName: "Other" } });
  await blobs.send("PUT", "/open?restype=container", {
    headers: { "x-ms-blob-public-access": "container" },
  });
  const content = Buffer.alloc(8 * MIB, "content");
  const put = { body: content, headers: { "x-ms-blob-type": "BlockBlob" } };
  await blobs.send("PUT", "/open/large", put);
  await tables.send("POST", "/Other", { body: { PartitionKey: "p", RowKey: "r", Text: "x" } });

  const before = memory();
  const alone = await otherClient(10);
  const warm = memory();
  let most = before;
  const watch = setInterval(() => (most = Math.max(most, memory())), 100);
  // In a process of their own, which the one that measures does not share.
  const slow = fork(new URL("slow-peers.ts", import.meta.url), [table, blob, each, ...kinds]);
  const open = new Promise((resolve) => slow.once("message", resolve));
  await open;
  await pause(10);
  const among = await otherClient(seconds);
  console.log(`memory: ${before} MiB before, ${warm} with the other client, at most ${most}`);
  slow.kill();
  clearInterval(watch);
  await pause(30);
  console.log(`30 s after they left: ${memory()} MiB`);
  console.log("alone", alone, "among", among);
  const metrics = await (await fetch(`${table}/_rowhouse/metrics`)).text();
  console.log(
    metrics
      .split("\n")
      .filter((line) => /^rowhouse_peer/.test(line))
      .join("\n"),
  );
  tables.close();
  blobs.close();
  await server.stop();

  async function otherClient(forSeconds: number) {
    // A connection of its own: the other may have been idle for too long.
    const tables = new TableWire({ url: `${table}/${name}`, account: name, key: KEY });
    const points: number[] = [];
    const transactions: number[] = [];
    const end = Date.now() + forSeconds * 1000;
    const failed = new Map<number, number>();
    for (let i = 0; Date.now() < end; i++) {
      const began = performance.now();
      const { status } = await tables.send("GET", "/Other(PartitionKey='p',RowKey='r')");
      points.push(performance.now() - began);
      if (status !== 200) failed.set(status, (failed.get(status) ?? 0) + 1);
      if (i % 10 > 0) continue;
      const bytes = transaction(i);
      const then = performance.now();
      const answer = await tables.send("POST", "/$batch", bytes);
      transactions.push(performance.now() - then);
      if (answer.status !== 202) failed.set(answer.status, (failed.get(answer.status) ?? 0) + 1);
    }
    tables.close();
    return {
      point: p99(points),
      transaction: p99(transactions),
      failed: Object.fromEntries(failed),
    };
  }
});

function p99(times: number[]): string {
  times.sort((a, b) => a - b);
  return `${times[Math.floor(times.length * 0.99)]?.toFixed(1)} ms of ${times.length}`;
}

function pause(forSeconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, forSeconds * 1000));
}
