/**
 * The long form of the tests with rivals and crashes:
 *
 *   node --conditions=rowhouse-source --import tsx server/src/engine/postgres/test-long-run.ts [minutes]
 *
 * With `POSTGRES_URL` (and further URLs of the same database in `POSTGRES_URLS`, such as those of two nodes
 * of a Citus cluster, separated by spaces) the workloads run there; crashes need a server of our own.
 */
import { openPostgresEngine, type PostgresEngine } from "./postgres-engine.ts";
import { Ledger } from "./test-ledger.ts";
import { LocalServer, testServer } from "./test-server.ts";
import {
  bankTogether,
  countApart,
  countTogether,
  overlapTogether,
  skewTogether,
  winAlone,
} from "./test-workloads.ts";

const minutes = Number(process.argv[2] ?? 10);
const endsAt = performance.now() + minutes * 60_000;
const isOver = () => performance.now() > endsAt;

await runWorkloads();
if (process.env.POSTGRES_URL === undefined) await runCrashes();

/** For half the time, or all of it if nothing can be crashed. */
async function runWorkloads(): Promise<void> {
  const until = process.env.POSTGRES_URL === undefined ? endsAt - minutes * 30_000 : endsAt;
  const server = await testServer();
  const others = process.env.POSTGRES_URLS?.split(" ");
  const url = others?.[0] ?? (await server.createDatabase());
  const engines = await Promise.all(
    (others ?? [url, url]).map((each) => openPostgresEngine({ url: each, allowUnsafe: true })),
  );
  console.log(`${engines[0]!.facts.version}, ${engines.length} front ends`);
  for (let round = 1; performance.now() < until; round++) {
    await timed(`round ${round}: counter`, () =>
      countTogether(engines, { writers: 16, additions: 50 }),
    );
    await timed("counters apart", () =>
      countApart(engines, { counters: 4, writers: 64, additions: 50 }),
    );
    await timed("one winner", () => winAlone(engines, { rounds: 150, rivals: 12 }));
    await timed("bank", () => bankTogether(engines, { accounts: 20, tellers: 16, transfers: 200 }));
    await timed("write skew", () => skewTogether(engines, { rounds: 200 }));
    await timed("overlap", () => overlapTogether(engines, { writers: 16, writes: 100 }));
    await clear(engines[0]!);
  }
  for (const engine of engines) await engine.close();
  if (others === undefined) await server.dropDatabase(url);
  await server.stop();
}

/** Rounds of the workloads use the same keys. */
async function clear(engine: PostgresEngine): Promise<void> {
  const start = { partition: Buffer.alloc(0), sort: Buffer.alloc(0) };
  for (;;) {
    const deletes: { partition: Uint8Array; sort: Uint8Array }[] = [];
    await engine.scan({ start }, ({ key }) => {
      deletes.push({ partition: Buffer.from(key.partition), sort: Buffer.from(key.sort) });
      return deletes.length < 500;
    });
    if (deletes.length === 0) return;
    await engine.commit({ version: engine.nextVersion(), checks: [], puts: [], deletes });
  }
}

async function runCrashes(): Promise<void> {
  const server = await LocalServer.create();
  await server.start();
  const url = await server.createDatabase();
  const engines = [await openPostgresEngine({ url }), await openPostgresEngine({ url })];
  for (let round = 1; !isOver(); round++) {
    const ledger = new Ledger(`round${round}`);
    const writing = ledger.write(engines, 16);
    for (let crash = 0; crash < 5; crash++) {
      await sleep(Math.random() * 2_000);
      const terminate =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rowhouse' AND random() < 0.3";
      for (let kill = 0; kill < 5; kill++) await server.run(terminate);
      await server.stop(Math.random() < 0.7 ? "immediate" : "fast");
      await sleep(Math.random() * 1_000);
      await server.start();
    }
    ledger.close();
    await writing;
    for (const engine of engines) await ledger.verify(engine);
    const counts = (["committed", "unavailable", "unknown"] as const).map(
      (outcome) => `${ledger.count(outcome)} ${outcome}`,
    );
    console.log(`crashes, round ${round}: ${counts.join(", ")}`);
  }
  for (const engine of engines) await engine.close();
  await server.remove();
}

async function timed(name: string, run: () => Promise<void>): Promise<void> {
  const startedAt = performance.now();
  await run();
  console.log(`${name}: ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
