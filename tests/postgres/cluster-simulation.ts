/**
 * Front ends whose writes are counted, while processes are killed:
 *
 *   npm run simulate -- --cluster [--seed=42] [--minutes=60]
 *
 * For the first half of the time over a Citus cluster: front ends, workers and the coordinator are killed, workers are
 * added and drained. For the second half over a primary with two standbys, which take over from each other while the
 * former primary comes back first. No acknowledged transaction may be lost, none may be seen in part or go back.
 */
import {
  citusBinaries,
  LocalCluster,
  NO_CLUSTER,
} from "@rowhouse/server/engine/postgres/test-cluster";
import { LocalServer, runAt } from "@rowhouse/server/engine/postgres/test-server";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { clientOf, type History, reached, work } from "./counters.ts";

const WRITERS = 8;
const WRITES_BETWEEN_FAULTS = 30;
const FRONT_ENDS = 2;
const WORKERS = { min: 2, max: 4 };

const seed = Number(process.argv[2]);
const minutes = Number(process.argv[3]);
const random = seededRandom(seed);

if (NO_CLUSTER !== undefined || process.env.CITUS_URL !== undefined) {
  console.error(NO_CLUSTER ?? "The servers of CITUS_URL are not for killing: leave it out.");
  process.exit(2);
}
/** A fault, and how it is told; runs until what it did is over. */
type Fault = readonly [name: string, strike: () => Promise<void>];

async function overCluster(folder: string): Promise<void> {
  const cluster = await LocalCluster.start({ workers: WORKERS.min, settings: { fsync: "off" } });
  const { coordinator } = cluster;
  const url = await coordinator.createDatabase();
  const inDatabase = (server: LocalServer) => server.url(new URL(url).pathname.slice(1));
  const fronts = await Fronts.start(folder, url, ["--allowUnsafeEngine"]);
  const bounce = async (server: LocalServer) => {
    await server.stop("immediate");
    await sleep(random() * 2_000);
    await server.start();
  };
  const some = () => cluster.workers[Math.floor(random() * cluster.workers.length)]!;
  const faults: readonly Fault[] = [
    ["a front end is killed", () => fronts.kill(random)],
    ["a worker is killed", () => bounce(some())],
    ["the coordinator is killed", () => bounce(coordinator)],
    [
      "a worker is added, or drained",
      async () => {
        if (
          cluster.workers.length < WORKERS.max &&
          (random() < 0.5 || cluster.workers.length === WORKERS.min)
        ) {
          const worker = await cluster.startWorker();
          await worker.run(`CREATE DATABASE ${new URL(url).pathname.slice(1)} TEMPLATE template0`);
          await runAt(inDatabase(worker), ["CREATE EXTENSION citus"]);
          await runAt(url, [
            `SELECT citus_add_node('127.0.0.1', ${worker.port})`,
            "SELECT rebalance_table_shards('rh_kv')",
          ]);
        } else {
          const worker = some();
          await runAt(url, [
            `SELECT citus_drain_node('127.0.0.1', ${worker.port})`,
            "CALL citus_cleanup_orphaned_resources()",
            `SELECT citus_remove_node('127.0.0.1', ${worker.port})`,
          ]);
          await cluster.removeWorker(worker);
        }
      },
    ],
  ];
  try {
    await writeDuring(fronts, faults);
  } finally {
    await fronts.end();
    await cluster.remove();
  }
}

async function overStandbys(folder: string): Promise<void> {
  let primary = await LocalServer.create(citusBinaries());
  primary.configure({ fsync: "on", wal_log_hints: "on", wal_keep_size: "1GB" });
  await primary.start();
  await primary.run("CREATE DATABASE store");
  await primary.stop();
  const servers = [primary, await primary.copy(), await primary.copy()];
  // Each has a name among the standbys, which it gives when it follows.
  const nameOf = (server: LocalServer) => `s${servers.indexOf(server)}`;
  const synchronous = { synchronous_standby_names: "ANY 1 (s0, s1, s2)" };
  primary.configure(synchronous);
  for (const standby of servers.slice(1)) standby.becomeStandbyOf(primary, nameOf(standby));
  await Promise.all(servers.map((server) => server.start()));
  const hosts = servers.map(({ port }) => `127.0.0.1:${port}`).join(",");
  const url = `postgres://postgres@${hosts}/store`;
  const fronts = await Fronts.start(folder, url, ["--require-durability", "standby"]);
  const failOver = async () => {
    const former = primary;
    await former.stop("immediate");
    // With one standby of two gone the other may lack what was acknowledged, so the one with more is promoted.
    const standbys = servers.filter((server) => server !== former);
    const positions = await Promise.all(
      standbys.map((server) => server.run("SELECT pg_last_wal_receive_lsn() - '0/0'")),
    );
    const isFirst = Number(positions[0]![0]![0]) >= Number(positions[1]![0]![0]);
    const [next, other] = isFirst ? standbys : standbys.toReversed();
    next!.configure(synchronous);
    await next!.run("SELECT pg_reload_conf()", "SELECT pg_promote()");
    await other!.stop();
    other!.becomeStandbyOf(next!, nameOf(other!));
    await other!.start();
    primary = next!;
    // The former primary comes back, writable, and would acknowledge alone what it is sent.
    former.configure({ synchronous_standby_names: "" });
    await former.start();
    await fronts.progress();
    await former.stop();
    await former.rewindTo(next!);
    former.becomeStandbyOf(next!, nameOf(former));
    await former.start();
  };
  try {
    await writeDuring(fronts, [
      ["a front end is killed", () => fronts.kill(random)],
      ["the primary is killed, and comes back as if nothing had happened", failOver],
    ]);
  } finally {
    await fronts.end();
    await Promise.all(servers.map((server) => server.remove()));
  }
}

async function writeDuring(fronts: Fronts, faults: readonly Fault[]): Promise<void> {
  const endsAt = performance.now() + (minutes * 60_000) / 2;
  let count = 0;
  const writing = fronts.write();
  const striking = async () => {
    while (performance.now() < endsAt) {
      const [name, strike] = faults[Math.floor(random() * faults.length)]!;
      await strike();
      await fronts.progress();
      count++;
      console.log(
        `${new Date().toISOString()} ${name}; ${fronts.history.acknowledged} transactions acknowledged`,
      );
    }
  };
  await Promise.race([striking(), writing]);
  fronts.history.isOver = true;
  await writing;
  console.log(
    `seed ${seed}: ${count} faults, ${fronts.history.acknowledged} transactions, none lost, torn or stale`,
  );
}

/** Front ends over one database, and those who write through them. */
class Fronts {
  readonly history: History = { acknowledged: 0, isOver: false };
  readonly #all: RowhouseProcess[] = [];
  readonly #start: () => Promise<RowhouseProcess>;

  private constructor(start: () => Promise<RowhouseProcess>) {
    this.#start = start;
  }

  static async start(folder: string, url: string, flags: readonly string[]): Promise<Fronts> {
    const arguments_ = ["--silent", "--engine", url, "--engineConnections", "6", ...flags];
    const fronts = new Fronts(() => startRowhouse(folder, arguments_));
    for (let count = 0; count < FRONT_ENDS; count++) fronts.#all.push(await fronts.#start());
    await clientOf(fronts.#all[0]!).createTable();
    return fronts;
  }

  write(): Promise<unknown> {
    return Promise.all(
      Array.from({ length: WRITERS }, (_, writer) => work(writer, this.#all, this.history)),
    );
  }

  async kill(random: () => number): Promise<void> {
    const victim = Math.floor(random() * this.#all.length);
    await this.#all[victim]!.kill();
    this.#all[victim] = await this.#start();
  }

  /** Resolves once some more was written. */
  progress(): Promise<void> {
    return reached(this.history, this.history.acknowledged + WRITES_BETWEEN_FAULTS);
  }

  async end(): Promise<void> {
    await Promise.all(this.#all.map((front) => front.kill()));
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

await withFolder(overCluster);
await withFolder(overStandbys);
