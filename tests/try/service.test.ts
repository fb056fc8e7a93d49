import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { transformSync } from "esbuild";
import { Installed } from "./installed.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const CLIENTS = ["@azure/data-tables", "@azure/storage-blob", "@azure/storage-queue"];

let user: Installed;
before(async () => {
  const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  user = await Installed.open(CLIENTS.map((name) => `${name}@${devDependencies[name]}`));
});
after(() => user.remove());

/** Places an order, which the worker, a process of its own, confirms; then ends the worker as an operator does. */
const VISITOR = `
  import { spawn } from "node:child_process";
  import { once } from "node:events";
  import { connectTo } from "./connect.mjs";
  import { Shop } from "./shop.mjs";
  const worker = spawn(process.execPath, ["main.mjs"], { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(worker, "exit");
  const [line] = await once(worker.stdout, "data");
  process.stdout.write(line);
  const shop = new Shop(connectTo(process.env.AZURE_STORAGE_CONNECTION_STRING));
  await shop.place({ shop: "north", id: 7, email: "ada@example.com", total: 12 });
  for (;;) {
    const [order] = await shop.ordersOf("north", "ada@example.com");
    if (order.state === "confirmed") break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  console.log(await shop.receiptOf("north", 7));
  worker.stdout.on("data", (text) => process.stdout.write(text));
  worker.kill("SIGTERM");
  const [code] = await exited;
  process.exitCode = code;`;

describe("Somebody who builds a service", () => {
  it("has the manual's one running beside a server, as they find it", async () => {
    const examples = join(root, "examples/orders");
    for (const name of readdirSync(examples).filter((each) => !each.endsWith(".test.ts"))) {
      const { code } = transformSync(readFileSync(join(examples, name), "utf8"), { loader: "ts" });
      const modules = code.replace(/from "(\.\/\w+)\.ts"/g, 'from "$1.mjs"');
      user.folder.write(name.replace(/\.ts$/, ".mjs"), modules);
    }
    user.folder.write("visitor.mjs", VISITOR);
    const ports = ["--tablePort", "0", "--queuePort", "0", "--blobPort", "0"];
    const serve = ["serve", "--inMemoryPersistence", ...ports];
    const printed = await user.rowhouse([...serve, "--", process.execPath, "visitor.mjs"]);
    assert.match(printed, /^working\nOrder 7: 12 to be paid by ada@example\.com\nstopped$/m);
  });
});
