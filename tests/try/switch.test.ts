import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { TableClient, TableServiceClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import { packRowhouse } from "./empty-folder.ts";
import { CONTRACT, type StartedBy } from "./switch-contract.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const DEVELOPMENT = [
  "devstoreaccount1",
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
] as const;
const NAMES = ["azurite", "azurite-blob", "azurite-queue", "azurite-table"];

type Ports = Readonly<Record<"blob" | "queue" | "table", number>>;

/**
 * The programs under test: what a release packs, under the emulator's names. `SWITCH_BIN` names another folder with
 * them, such as that of an image's root.
 */
let bin: string;
let remove = () => {};
before(async () => {
  if (process.env.SWITCH_BIN) {
    bin = process.env.SWITCH_BIN;
    return;
  }
  const packed = await packRowhouse();
  remove = packed.remove;
  bin = join(packed.stage, "bin");
  mkdirSync(bin);
  for (const name of NAMES) symlinkSync(join(packed.stage, "dist/main.js"), join(bin, name));
});
after(() => remove());

describe("Whatever starts the emulator can start Rowhouse instead", () => {
  for (const started of CONTRACT) {
    it(started.module, async () => {
      const ports = await freePorts();
      const folder = mkdtempSync(join(tmpdir(), "rowhouse-switch-"));
      const [name = "", ...args] = started.argv.map((word) => withPorts(word, ports));
      const child = spawn(join(bin, name), args, {
        cwd: folder,
        env: { ...process.env, AZURITE_ACCOUNTS: "", ...started.environment },
        stdio: ["ignore", "pipe", "ignore"],
      });
      const exited = once(child, "exit");
      try {
        await isReady(started, child.stdout, ports);
        await firstRequests(started, ports);
        child.kill("SIGTERM");
        assert.deepEqual(await exited, [0, null]);
      } finally {
        child.kill("SIGKILL");
        rmSync(folder, { recursive: true, force: true });
      }
    });
  }
});

describe("The manual's page about the switch", () => {
  it("names every module of the contract's ecosystems", () => {
    const page = readFileSync(join(root, "docs/manual/switch.md"), "utf8");
    for (const ecosystem of ["Node", ".NET", "Java", "Go", "Python", "Rust", "Aspire"])
      assert.match(page, new RegExp(`^\\| ${ecosystem.replace(".", "\\.")} \\|`, "m"));
  });
});

/** Waits as the module does. The first line is checked whatever else it waits for. */
async function isReady(
  started: StartedBy,
  stdout: NodeJS.ReadableStream,
  ports: Ports,
): Promise<void> {
  const exact = started.waitsForExactly && withPorts(started.waitsForExactly, ports);
  const missing = new Set(started.waitsFor);
  const lines: string[] = [];
  const reader = createInterface({ input: stdout });
  for await (const line of reader) {
    lines.push(line);
    for (const pattern of missing) if (pattern.test(line)) missing.delete(pattern);
    const isTold = missing.size === 0 && (exact === undefined || lines.includes(exact));
    if (isTold && (!started.waitsForPorts || line.includes("listening"))) break;
  }
  if (started.firstLine) assert.match(lines[0] ?? "", started.firstLine);
  assert.equal(missing.size, 0, lines.join("\n"));
  if (exact) assert.ok(lines.includes(exact), lines.join("\n"));
  if (!started.waitsForPorts) return;
  for (const service of started.services ?? (["blob", "queue", "table"] as const)) {
    while (!(await accepts(ports[service])));
  }
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** What the modules' own tests do first, on an empty store. */
async function firstRequests(
  { account = DEVELOPMENT, services = ["blob", "queue", "table"] }: StartedBy,
  ports: Ports,
): Promise<void> {
  const [name, key] = account;
  const endpoints = (["blob", "queue", "table"] as const).map(
    (service) =>
      `${service[0]!.toUpperCase()}${service.slice(1)}Endpoint=http://127.0.0.1:${ports[service]}/${name}`,
  );
  const connection = [
    ...["DefaultEndpointsProtocol=http", `AccountName=${name}`, `AccountKey=${key}`],
    ...endpoints,
  ].join(";");
  if (services.includes("blob")) {
    const blobs = BlobServiceClient.fromConnectionString(connection);
    await blobs.getProperties();
    assert.equal((await blobs.listContainers().byPage({ maxPageSize: 1 }).next()).done, false);
    const { containerClient } = await blobs.createContainer("pictures");
    await containerClient.uploadBlockBlob("a", "text", 4);
    assert.equal((await containerClient.listBlobsFlat().next()).value?.name, "a");
  }
  if (services.includes("queue")) {
    const queues = QueueServiceClient.fromConnectionString(connection);
    await queues.getProperties();
    const queue = queues.getQueueClient("work");
    await queue.create();
    await queue.sendMessage("one");
    const { receivedMessageItems } = await queue.receiveMessages();
    assert.equal(receivedMessageItems[0]?.messageText, "one");
  }
  if (services.includes("table")) {
    const options = { allowInsecureConnection: true };
    const tables = TableServiceClient.fromConnectionString(connection, options);
    await tables.getProperties();
    await tables.createTable("Films");
    const films = TableClient.fromConnectionString(connection, "Films", options);
    await films.createEntity({ partitionKey: "p", rowKey: "r" });
    assert.equal((await films.listEntities().next()).value?.rowKey, "r");
  }
}

function withPorts(text: string, ports: Ports): string {
  return text.replace(/\{(blob|queue|table)\}/g, (_, name: keyof Ports) => String(ports[name]));
}

async function freePorts(): Promise<Ports> {
  const servers = await Promise.all(
    [0, 0, 0].map(async () => {
      const server = createServer().listen(0, "0.0.0.0");
      await once(server, "listening");
      return server;
    }),
  );
  const [blob, queue, table] = servers.map((server) => {
    const address = server.address();
    server.close();
    return typeof address === "object" && address ? address.port : 0;
  });
  return { blob: blob!, queue: queue!, table: table! };
}
