import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  type Binaries,
  databasesOf,
  formCluster,
  LocalServer,
  runAt,
  type TestServer,
} from "./test-server.ts";

/**
 * A real Citus cluster for tests: a coordinator and workers on the loopback interface, started from a PostgreSQL
 * installation that has the extension. `PG_CONFIG` names the installation's `pg_config`; default: the one in the path.
 * `CITUS_URL` names the coordinator of another cluster to test with; its workers are those that it knows.
 */

/** Why there is no cluster to test with; undefined if there is one. Tests say it. */
export const NO_CLUSTER =
  process.env.CITUS_URL !== undefined || citusBinaries() !== undefined
    ? undefined
    : "no Citus was found: neither CITUS_URL nor an installation with the extension (PG_CONFIG)";

export function citusBinaries(): Binaries | undefined {
  const ask = (flag: string) =>
    execFileSync(process.env.PG_CONFIG ?? "pg_config", [flag], { stdio: "pipe" })
      .toString()
      .trim();
  try {
    const folder = ask("--bindir");
    const hasCitus = existsSync(join(ask("--sharedir"), "extension", "citus.control"));
    const binaries = { initdb: join(folder, "initdb"), postgres: join(folder, "postgres") };
    return hasCitus && existsSync(binaries.initdb) ? binaries : undefined;
  } catch {
    return undefined;
  }
}

/** The cluster that `CITUS_URL` names, otherwise one started for this process, which does not flush. */
export async function testCluster(): Promise<TestServer & { readonly url: string }> {
  const given = process.env.CITUS_URL;
  if (given !== undefined) return { ...databasesOf(given), url: given, stop: async () => {} };
  const cluster = await LocalCluster.start({ settings: { fsync: "off" } });
  const { coordinator } = cluster;
  return {
    url: coordinator.url(),
    createDatabase: () => coordinator.createDatabase(),
    dropDatabase: (url) => coordinator.dropDatabase(url),
    stop: () => cluster.remove(),
  };
}

export interface LocalClusterOptions {
  readonly workers?: number;
  readonly settings?: Readonly<Record<string, string>>;
}

/** A cluster whose nodes can be stopped one by one. */
export class LocalCluster {
  readonly coordinator: LocalServer;
  readonly workers: LocalServer[] = [];
  readonly #settings: Readonly<Record<string, string>>;

  private constructor(coordinator: LocalServer, settings: Readonly<Record<string, string>>) {
    this.coordinator = coordinator;
    this.#settings = settings;
  }

  static async start({
    workers = 2,
    settings = {},
  }: LocalClusterOptions = {}): Promise<LocalCluster> {
    const cluster = new LocalCluster(await startNode(settings), settings);
    for (let count = 0; count < workers; count++) {
      cluster.workers.push(await startNode(settings));
    }
    await formCluster(
      cluster.coordinator.url(),
      cluster.workers.map((worker) => worker.url()),
    );
    return cluster;
  }

  get nodes(): readonly LocalServer[] {
    return [this.coordinator, ...this.workers];
  }

  /** Starts another server, which is no node of any database yet. */
  async startWorker(): Promise<LocalServer> {
    const worker = await startNode(this.#settings);
    this.workers.push(worker);
    return worker;
  }

  /** Ends a server that is a node of no database any more. */
  async removeWorker(worker: LocalServer): Promise<void> {
    this.workers.splice(this.workers.indexOf(worker), 1);
    await worker.remove();
  }

  async remove(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.remove()));
  }
}

async function startNode(settings: Readonly<Record<string, string>>): Promise<LocalServer> {
  const binaries = citusBinaries();
  if (binaries === undefined) throw new Error(NO_CLUSTER);
  const node = await LocalServer.create(binaries);
  node.configure({
    shared_preload_libraries: "citus",
    max_connections: "200",
    max_prepared_transactions: "200",
    wal_level: "logical",
    deadlock_timeout: "100ms",
    "citus.node_conninfo": "sslmode=disable",
    "citus.enable_statistics_collection": "off",
    ...settings,
  });
  await node.start();
  return node;
}

/** Fails unless the tables of a database are spread over several nodes, as an engine over a cluster needs them. */
export async function assertDistributed(url: string): Promise<void> {
  const nodes = await runAt(url, [
    "SELECT DISTINCT nodename, nodeport FROM pg_dist_shard JOIN pg_dist_shard_placement USING (shardid) " +
      "WHERE logicalrelid = 'rh_kv'::regclass",
  ]);
  if (nodes.length < 2) throw new Error(`The table rh_kv of ${url} is on ${nodes.length} nodes.`);
}
