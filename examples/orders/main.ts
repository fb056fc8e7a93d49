import { connectTo } from "./connect.ts";
import { Order, Receipts } from "./model.ts";
import { orderWorker } from "./worker.ts";

// The worker process. Start as many as the work needs, and kill any of them at any time.
const connection = process.env.AZURE_STORAGE_CONNECTION_STRING;
if (connection === undefined) {
  throw new Error("Set AZURE_STORAGE_CONNECTION_STRING; `rowhouse connection-string` prints one.");
}
const db = connectTo(connection);
const worker = orderWorker(db);
await db.provision(Order, Receipts, worker);

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
console.log("working");
await worker.run({ signal: stop.signal }); // resolves when the messages in flight are done
console.log("stopped");
