import type { Clock } from "@rowhouse/server/clock";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import { assertDistributed } from "@rowhouse/server/engine/postgres/test-cluster";
import { runAt, sharedTestServer } from "@rowhouse/server/engine/postgres/test-server";
import { decorated } from "@rowhouse/server/engine/test-decorated";
import { VersionClock } from "@rowhouse/server/engine/version-clock";

/** Set by the run over a cluster, which would prove nothing if the tables were on one node. */
const isOnCluster = process.env.ON_CLUSTER !== undefined;

/** Empty databases that closed engines of this process have left. */
const idle: TestDatabase[] = [];

/** An engine over an empty database of the test server, which no other engine uses until it is closed. */
export async function openDatabaseEngine(options: { clock?: Clock } = {}): Promise<Engine> {
  // Creating and dropping a database takes several times as long as emptying one.
  const database = idle.pop() ?? (await createTestDatabase());
  const engine = await database.open(options);
  let closed: Promise<void> | undefined;
  const close = async () => {
    await engine.close();
    await runAt(database.url, [isOnCluster ? "TRUNCATE rh_kv, rh_reference" : "TRUNCATE rh_kv"]);
    idle.push(database);
  };
  // Several servers may share it, and each closes it.
  return decorated(engine, { close: () => (closed ??= close()) });
}

// Drops the databases that are on a server that outlives this process.
process.on("beforeExit", async () => {
  await Promise.all(idle.splice(0).map((database) => database.drop()));
});

export interface TestDatabase {
  readonly url: string;
  /** Opens another engine over it. */
  open(options?: { clock?: Clock }): Promise<Engine>;
  /** See the function of this name. */
  settled(): Promise<void>;
  /** Called once every engine over it is closed. */
  drop(): Promise<void>;
}

/** A new database on the test server that this process shares. */
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
 * Resolves once no other client is connected to the database: everything that a killed front end had sent is
 * then done, or never will be. Before that, one of its commits may happen after a read.
 */
export async function settled(url: string): Promise<void> {
  while ((await runAt(url, [OTHERS])).length > 0);
}

/** The nodes of a cluster are clients of each other, for good. */
const OTHERS =
  "SELECT pid FROM pg_stat_activity WHERE datname = current_database() " +
  "AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND application_name NOT LIKE 'citus_internal%'";

async function openOver(url: string, { clock }: { clock?: Clock } = {}): Promise<Engine> {
  const engine = await openPostgresEngine({ url, allowUnsafe: true, writersMax: 8 });
  if (isOnCluster) await assertDistributed(url);
  // The engine's own versions start after the database's clock, which no test can set.
  const versions = clock && new VersionClock(clock);
  return versions ? decorated(engine, { nextVersion: () => versions.next() }) : engine;
}

/** The databases of this process, by the data folder that each replaces. */
const byFolder = new Map<string, Promise<TestDatabase>>();

/** The database that replaces a data folder. */
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
