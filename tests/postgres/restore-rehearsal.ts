/**
 * Rehearses what the manual says about backups: a server, and then a cluster, is restored to a moment before a mistake.
 *
 *   node --conditions=rowhouse-source --import tsx tests/postgres/restore-rehearsal.ts
 */
import assert from "node:assert/strict";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import {
  citusBinaries,
  LocalCluster,
  NO_CLUSTER,
} from "@rowhouse/server/engine/postgres/test-cluster";
import { LocalServer, runAt } from "@rowhouse/server/engine/postgres/test-server";
import { commit, keyOf } from "@rowhouse/server/engine/postgres/test-workloads";

const COPIES = 200;

if (NO_CLUSTER !== undefined || process.env.CITUS_URL !== undefined) {
  console.error(NO_CLUSTER ?? "The servers of CITUS_URL are not for restoring: leave it out.");
  process.exit(2);
}
await rehearse(
  "a server",
  async () => {
    const server = await LocalServer.create(citusBinaries());
    server.archive();
    await server.start();
    return { servers: [server], url: await server.createDatabase() };
  },
  async ([server]) => {
    const [[now] = []] = await server!.run("SELECT clock_timestamp()::text");
    return { recovery_target_time: String(now) };
  },
);
await rehearse(
  "a cluster",
  async () => {
    const cluster = await LocalCluster.start({ settings: { fsync: "off" } });
    for (const node of cluster.nodes) {
      await node.stop();
      node.archive();
      await node.start();
    }
    return { servers: cluster.nodes, url: await cluster.coordinator.createDatabase() };
  },
  async (_, url) => {
    await runAt(url, ["SELECT citus_create_restore_point('before')"]);
    return { recovery_target_name: "before" };
  },
);

interface Store {
  readonly servers: readonly LocalServer[];
  readonly url: string;
}

async function rehearse(
  name: string,
  open: () => Promise<Store>,
  mark: (servers: readonly LocalServer[], url: string) => Promise<Record<string, string>>,
): Promise<void> {
  const { servers, url } = await open();
  try {
    const engine = await openPostgresEngine({ url, allowUnsafe: true });
    const key = (n: number) => keyOf(`\x11partition ${n}`, "row");
    const write = (from: number, to: number) =>
      Promise.all(
        Array.from({ length: to - from }, (_, n) =>
          commit(engine, { puts: [[key(from + n), "x"]] }),
        ),
      );
    await write(0, COPIES);
    for (const server of servers) await server.baseBackup();
    await write(COPIES, 2 * COPIES);
    const target = await mark(servers, url);
    await commit(engine, { deletes: [key(0), key(COPIES)] });
    await write(2 * COPIES, 3 * COPIES);
    await engine.close();
    for (const server of servers) await server.run("SELECT pg_switch_wal()");
    for (const server of servers) await server.stop();
    for (const server of servers) server.restore({ recovery_target_action: "promote", ...target });
    await Promise.all(servers.map((server) => server.start()));
    for (const server of servers) {
      while ((await server.run("SELECT pg_is_in_recovery()"))[0]?.[0] !== false);
    }
    const restored = await openPostgresEngine({ url, allowUnsafe: true });
    const found = await restored.get(Array.from({ length: 3 * COPIES }, (_, n) => key(n)));
    const there = found.map((entry) => entry !== undefined);
    assert.ok(
      there.slice(0, 2 * COPIES).every(Boolean),
      "something acknowledged before is missing",
    );
    assert.ok(!there.slice(2 * COPIES).some(Boolean), "something from after is there");
    await restored.close();
    console.log(`${name}: restored to the moment before the mistake`);
  } finally {
    await Promise.all(servers.map((server) => server.remove()));
  }
}
