/**
 * The process whose writes and flushes are recorded: all writers take their steps at once, and it prints when each
 * begins and when it is acknowledged. `node power-loss-process.ts <folder>`.
 */
import { writeSync } from "node:fs";
import { startRowhouse } from "rowhouse/testing";
import { Clients, STEPS, WRITERS } from "./power-loss-history.ts";

const server = await startRowhouse({
  engine: { path: process.argv[2]! },
  services: ["table", "blob"],
});
const clients = new Clients(server);
await clients.prepare();
writeSync(1, "prepared\n");
await Promise.all(Array.from({ length: WRITERS }, (_, writer) => work(writer)));
await server.close();

async function work(writer: number): Promise<void> {
  for (let step = 0; step < STEPS; step++) {
    writeSync(1, `begun ${writer}\n`);
    await clients.take(writer, step);
    writeSync(1, `acknowledged ${writer}\n`);
  }
}
