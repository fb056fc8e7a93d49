import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { TableClient } from "@azure/data-tables";
import { BlobServiceClient, type ContainerClient } from "@azure/storage-blob";
import { BlobLab } from "@rowhouse/server/blob/test-blob-lab";
import { FileContentStore } from "@rowhouse/server/content/file-content-store";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { hasMounts } from "@rowhouse/server/engine/test-mounts";
import { ROWHOUSE, RowhouseCommand } from "../support/rowhouse-command.ts";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { Pace } from "./interruption.ts";

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);
const BACKUPS = 2;
const NAMES = 6;
/** Stored in the engine, and in files next to it. */
const SIZES = [3000, 131_073, 400_000];
const ACCOUNTS = ["a", "b", "c"];
const TOTAL = 300;

describe(`A backup of a folder that is being written to (seed ${seed}, CRASH_SEED repeats it)`, () => {
  it("contains one consistent snapshot, leaves no orphaned content, and can be served", async () => {
    await withFolder(async (folder) => {
      const data = join(folder, "data");
      const server = await startRowhouse(data, ["--silent", "--workers", "2"]);
      const backups: string[] = [];
      const pace = new Pace();
      const work = Promise.all(workers(server, pace));
      try {
        for (let i = 0; i < BACKUPS; i++) {
          await pace.answered(100);
          backups.push(join(folder, `backup-${i}`));
          await backUp(data, backups[i]!);
        }
      } finally {
        pace.isOver = true;
        await work;
        await server.stop();
      }
      for (const backup of backups) {
        await assertNothingLeftOver(backup);
        const restored = await startRowhouse(backup, ["--silent"]);
        try {
          await judge(restored);
        } finally {
          await restored.stop();
        }
      }
      await assertNothingLeftOver(data);
    });
  });

  if (hasMounts()) {
    for (const [what, bytes] of [
      ["entries", SIZES[0]! * 40],
      ["contents", SIZES[2]!],
    ] as const) {
      it(`reports that its disk is full and leaves no files, with too many ${what}`, async () => {
        await withFolder(async (folder) => {
          const data = join(folder, "data");
          const server = await startRowhouse(data, ["--silent"]);
          const container = await createContainer(server);
          for (let i = 0; i < 20; i++) await upload(container, `${i}`, bytes, 1);
          await server.stop();
          const disk = join(folder, "disk");
          mkdirSync(disk);
          const mount = `mount -t tmpfs -o size=2m none ${disk}`;
          const rowhouse = [process.execPath, ...ROWHOUSE].join(" ");
          const command = `${rowhouse} backup ${disk}/backup --location ${data}`;
          const script = `${mount} && { ${command}; echo "$? $(ls -A ${disk})"; }`;
          const { stdout, stderr } = spawnSync("unshare", ["-rm", "sh", "-c", script], {
            encoding: "utf8",
          });
          assert.match(stderr, /no space left on/);
          assert.equal(stdout, "2 \n");
        });
      });
    }
  }

  it("that is interrupted or killed leaves no folder that looks like a finished backup, and releases its hold on content", async () => {
    await withFolder(async (folder) => {
      const data = join(folder, "data");
      const server = await startRowhouse(data, ["--silent"]);
      const container = await createContainer(server);
      for (const name of ["1", "2", "3"]) await upload(container, name, SIZES[2]!, 1);
      await server.stop();
      const target = join(folder, "backup");
      const part = `${target}.part`;
      const stopped = await stopBackup(data, target, "SIGINT");
      assert.match(stopped.stderr, /interrupted by SIGINT; the partial copy was removed/);
      assert.equal(existsSync(part), false);
      await stopBackup(data, target, "SIGKILL");
      assert.equal(existsSync(part), true);
      const again = new RowhouseCommand(["backup", target, "--location", data]);
      assert.equal(await again.exited, 2);
      assert.match(
        again.stderr,
        /backup\.part belongs to a backup that is running or was interrupted/,
      );
      await assertNothingLeftOver(data);
    });
  });
});

async function backUp(data: string, target: string): Promise<void> {
  const command = new RowhouseCommand(["backup", target, "--location", data]);
  assert.equal(await command.exited, 0, command.stdout + command.stderr);
  assert.match(command.stdout, /entries .* content files/);
}

/** Signals a backup that is running; one that finished before the signal does not count. */
async function stopBackup(
  data: string,
  target: string,
  signal: NodeJS.Signals,
): Promise<RowhouseCommand> {
  for (;;) {
    const command = new RowhouseCommand(["backup", target, "--location", data]);
    while (!existsSync(`${target}.part`) && !existsSync(target)) {
      await new Promise((next) => setImmediate(next));
    }
    command.signal(signal);
    await command.exited;
    if (!existsSync(target)) return command;
    rmSync(target, { recursive: true });
  }
}

/** Clients, each of which maintains an invariant that `judge` checks. */
function workers(server: RowhouseProcess, pace: Pace): Promise<void>[] {
  const random = seededRandom(seed);
  const table = tableOf(server);
  return [transfer(table, pace, random), ...overwrite(server, pace, random)];
}

/** Moves amounts between accounts, so that their sum stays the same. */
async function transfer(table: TableClient, pace: Pace, random: () => number): Promise<void> {
  await table.createTable();
  const amounts = ACCOUNTS.map(() => TOTAL / ACCOUNTS.length);
  await write("create");
  while (!pace.isOver) {
    const amount = Math.floor(random() * 10);
    amounts[Math.floor(random() * 3)]! -= amount;
    amounts[Math.floor(random() * 3)]! += amount;
    await write("upsert");
    pace.answer();
  }

  async function write(action: "create" | "upsert"): Promise<void> {
    await table.submitTransaction(
      ACCOUNTS.map((rowKey, i) => [
        action,
        { partitionKey: "accounts", rowKey, amount: amounts[i]! },
      ]),
    );
  }
}

/**
 * Overwrites blobs with content made of one repeated byte, recorded in their metadata. Each upload is announced
 * in a table first.
 */
function overwrite(server: RowhouseProcess, pace: Pace, random: () => number): Promise<void>[] {
  const created = createContainer(server);
  const table = TableClient.fromConnectionString(server.connectionString, "Announced", CLIENT);
  const tableCreated = table.createTable();
  return Array.from({ length: NAMES }, async (_, i) => {
    const container = await created;
    await tableCreated;
    const name = `blob-${i}`;
    for (let count = 1; !pace.isOver; count++) {
      await table.upsertEntity({ partitionKey: "blobs", rowKey: name, count });
      const bytes = SIZES[Math.floor(random() * SIZES.length)]!;
      await upload(container, name, bytes, count, random() < 0.5);
      if (random() < 0.1) await container.deleteBlob(name);
      pace.answer();
    }
  });
}

const CLIENT = { allowInsecureConnection: true };

function tableOf(server: RowhouseProcess): TableClient {
  return TableClient.fromConnectionString(server.connectionString, "Accounts", CLIENT);
}

function containerOf(server: RowhouseProcess): ContainerClient {
  const service = BlobServiceClient.fromConnectionString(server.connectionString);
  return service.getContainerClient("docs");
}

async function createContainer(server: RowhouseProcess): Promise<ContainerClient> {
  const container = containerOf(server);
  await container.create();
  return container;
}

async function upload(
  container: ContainerClient,
  name: string,
  bytes: number,
  count: number,
  inBlocks = false,
): Promise<void> {
  await container.getBlockBlobClient(name).uploadData(Buffer.alloc(bytes, count % 256), {
    metadata: { count: `${count}`, bytes: `${bytes}` },
    ...(inBlocks && { blockSize: 140_000, maxSingleShotSize: 1, concurrency: 2 }),
  });
}

async function judge(server: RowhouseProcess): Promise<void> {
  let sum = 0;
  for await (const { amount } of tableOf(server).listEntities<{ amount: number }>()) sum += amount;
  assert.equal(sum, TOTAL);

  const announced = new Map<string, number>();
  const table = TableClient.fromConnectionString(server.connectionString, "Announced", CLIENT);
  for await (const { rowKey, count } of table.listEntities<{ count: number }>()) {
    announced.set(rowKey!, count);
  }
  const container = containerOf(server);
  for await (const { name, metadata } of container.listBlobsFlat({ includeMetadata: true })) {
    const count = Number(metadata!.count);
    const expected = Buffer.alloc(Number(metadata!.bytes), count % 256);
    const content = await container.getBlobClient(name).downloadToBuffer();
    assert.ok(content.equals(expected), `${name} has another content than its metadata tell.`);
    // Writes acknowledged before an announcement in the snapshot are in it too, and no unannounced write is.
    assert.ok([count, count + 1].includes(announced.get(name)!), `${name} is of another moment.`);
  }
}

/** Called when no process uses the folder any more. */
async function assertNothingLeftOver(folder: string): Promise<void> {
  const engine = await openLmdbEngine({ path: folder });
  const contentStore = await FileContentStore.open(join(folder, "contents"));
  const lab = await BlobLab.open({ engine, contentStore });
  try {
    await lab.assertTidy();
  } finally {
    await lab.close();
    await engine.close();
  }
}
