import type { Clock } from "@rowhouse/server/clock";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openPostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import { testServer } from "@rowhouse/server/engine/postgres/test-server";
import { VersionClock } from "@rowhouse/server/engine/version-clock";

/** An engine over a new database of the test server, which goes when the engine is closed. */
export async function openDatabaseEngine({ clock }: { clock?: Clock } = {}): Promise<Engine> {
  const server = await testServer();
  const url = await server.createDatabase();
  const engine = await openPostgresEngine({ url, allowUnsafe: true, writersMax: 8 });
  // The engine's own versions begin after the database's clock, which no test can set.
  const versions = clock && new VersionClock(clock);
  return {
    name: engine.name,
    keyBytesMax: engine.keyBytesMax,
    nextVersion: () => versions?.next() ?? engine.nextVersion(),
    get: (keys) => engine.get(keys),
    scan: (range, visit, hints) => engine.scan(range, visit, hints),
    commit: (write) => engine.commit(write),
    async close() {
      await engine.close();
      await server.dropDatabase(url);
      await server.stop();
    },
  };
}
