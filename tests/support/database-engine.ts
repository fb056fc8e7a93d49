import type { Clock } from "@rowhouse/server/clock";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import { runAt, sharedTestServer } from "@rowhouse/server/engine/postgres/test-server";
import { VersionClock } from "@rowhouse/server/engine/version-clock";

/** Databases that engines of this process have left, empty. */
const idle: TestDatabase[] = [];

/** An engine over an empty database of the test server that is its own until it is closed. */
export async function openDatabaseEngine(options: { clock?: Clock } = {}): Promise<Engine> {
  // To create and drop one takes several times as long as to empty it.
  const database = idle.pop() ?? (await createTestDatabase());
  const engine = await database.open(options);
  let closed: Promise<void> | undefined;
  const close = async () => {
    await engine.close();
    await runAt(database.url, ["TRUNCATE rh_kv"]);
    idle.push(database);
  };
  // Several servers may have it, and each closes it.
  return { ...engine, close: () => (closed ??= close()) };
}

// Those on a server that outlives this process.
process.on("beforeExit", async () => {
  await Promise.all(idle.splice(0).map((database) => database.drop()));
});

export interface TestDatabase {
  readonly url: string;
  /** One of any number of engines over it. */
  open(options?: { clock?: Clock }): Promise<Engine>;
  /** As the function of this name. */
  settled(): Promise<void>;
  /** Once every engine over it is closed. */
  drop(): Promise<void>;
}

/** A new database of the test server that this process shares. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const server = await sharedTestServer();
  const url = await server.createDatabase();
  return {
    url,
    open: (options) => openOver(url, options),
    settled: () => settled(url),
    drop: () => server.dropDatabase(url),
  };
}

/**
 * Resolves once nobody else is connected to the database: what a killed front end had sent is then
 * done, or never will be. Until then a commit of it may come after something was read.
 */
export async function settled(url: string): Promise<void> {
  while ((await runAt(url, [OTHERS])).length > 0);
}

const OTHERS =
  "SELECT pid FROM pg_stat_activity WHERE datname = current_database() " +
  "AND pid <> pg_backend_pid() AND backend_type = 'client backend'";

async function openOver(url: string, { clock }: { clock?: Clock } = {}): Promise<Engine> {
  const engine = await openPostgresEngine({ url, allowUnsafe: true, writersMax: 8 });
  // The engine's own versions begin after the database's clock, which no test can set.
  const versions = clock && new VersionClock(clock);
  return {
    name: engine.name,
    keyBytesMax: engine.keyBytesMax,
    nextVersion: () => versions?.next() ?? engine.nextVersion(),
    newestCommit: () => engine.newestCommit(),
    get: (keys) => engine.get(keys),
    scan: (range, visit, hints) => engine.scan(range, visit, hints),
    commit: (write) => engine.commit(write),
    close: () => engine.close(),
  };
}

/** The databases of this process by the folder of the front ends that they stand for. */
const byFolder = new Map<string, Promise<TestDatabase>>();

/** The database that takes the place of a data folder. */
export function databaseOfFolder(folder: string): Promise<TestDatabase> {
  const known = byFolder.get(folder) ?? createTestDatabase();
  byFolder.set(folder, known);
  return known;
}

export async function dropDatabaseOfFolder(folder: string): Promise<void> {
  const database = await byFolder.get(folder);
  byFolder.delete(folder);
  await database?.drop();
}
