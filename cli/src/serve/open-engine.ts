import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { systemClock } from "@rowhouse/server/clock";
import type { ContentStore } from "@rowhouse/server/content/content-store";
import { CONTENTS_FOLDER } from "@rowhouse/server/content/file-content-store";
import { MemoryContentStore } from "@rowhouse/server/content/memory-content-store";
import type { Engine } from "@rowhouse/server/engine/engine";
import { LONG_FREE_LIST_PAGES } from "@rowhouse/server/engine/lmdb/data-file";
import { type LmdbEngine, openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import type { PostgresEngine } from "@rowhouse/server/engine/postgres/postgres-engine";
import type { Health } from "@rowhouse/server/http/health";
import type { SecondaryEngine } from "@rowhouse/server/server";
import type { NodesOf } from "@rowhouse/server/table/partition-nodes";
import type { Logger } from "pino";
import type { ServeOptions } from "./serve-options.ts";

export interface OpenedEngine {
  readonly engine: Engine;
  /** The store of large blob contents, if it is not the server's default for this engine. */
  readonly contentStore?: ContentStore;
  /** What `/readyz` reports about the engine. */
  readonly health: () => Health | Promise<Health>;
  /** The machines on whose disks an acknowledged write is now; 2 for "more than one". */
  readonly durableMachines: () => number;
  /** What answers the secondary endpoint of tables, if it is not the engine. */
  readonly secondary?: SecondaryEngine;
  /** Where the engine is a cluster. */
  readonly nodesOf?: NodesOf;
}

/** The flags that select and configure the engine. */
export type EngineOptions = Pick<
  ServeOptions,
  | "allowUnsafeEngine"
  | "engine"
  | "engineConnections"
  | "inMemoryPersistence"
  | "location"
  | "preparedStatements"
  | "readStandby"
  | "requireDurability"
>;

const POSTGRES_URL = /^postgres(ql)?:\/\//;

/** Opens the engine that the flags select; without any, LMDB in the data folder. */
export async function openEngine(options: EngineOptions, log: Logger): Promise<OpenedEngine> {
  if (options.engine !== undefined) {
    checkUrl("--engine (or ROWHOUSE_ENGINE)", options.engine);
    if (options.readStandby !== undefined) {
      checkUrl("--readStandby (or ROWHOUSE_READ_STANDBY)", options.readStandby);
    }
    return openPostgres(options.engine, options, log);
  }
  if (options.inMemoryPersistence) {
    const engine = new MemoryEngine();
    const detail = { engine: engine.name, durability: "none" };
    return {
      engine,
      contentStore: new MemoryContentStore(),
      health: () => ({ ready: true, detail }),
      durableMachines: () => 0,
    };
  }
  const path = resolve(options.location);
  const engine = await openLmdbEngine({ path });
  warnOfVersionsAhead(engine, log);
  warnOfLongFreeList(engine, log);
  const trouble = new TroubleLog(log);
  const contents = join(path, CONTENTS_FOLDER);
  let hadContents = false;
  return {
    engine,
    durableMachines: () => 1,
    health() {
      const refusal = engine.refusal();
      const hasContents = existsSync(contents);
      // A server without blobs never has the folder.
      hadContents ||= hasContents;
      const lost = hadContents && !hasContents;
      trouble.report(refusal?.reason ?? (lost ? `${contents} is missing` : undefined));
      // With a full disk the server still serves reads, and deletes that make room, so it stays in service.
      return {
        ready: !refusal?.untilRestart && !lost,
        detail: {
          engine: engine.name,
          durability: "disk",
          ...(refusal && { writes: `refused: ${SEE_LOG}` }),
          ...(lost && { contents: `missing: ${SEE_LOG}` }),
        },
      };
    },
  };
}

function checkUrl(flag: string, url: string): void {
  // The text may be a mistyped URL that contains a password, so the message does not repeat it.
  if (!POSTGRES_URL.test(url)) {
    throw new Error(`${flag} is not of the form postgres://USER@HOST:PORT/DATABASE.`);
  }
}

/** Anybody may ask for `/readyz`, and reasons name folders and hosts. */
const SEE_LOG = "the reason is in the log";

/** Logs why the engine cannot serve, whenever the reason changes. */
class TroubleLog {
  readonly #log: Logger;
  #reason: string | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  report(reason: string | undefined): void {
    if (reason === this.#reason) return;
    this.#reason = reason;
    if (reason === undefined) this.#log.info("the engine serves again");
    else this.#log.error({ reason }, "the engine does not serve everything");
  }
}

/** Versions are reserved less than a second ahead, so more than this means a wrong clock. */
const VERSIONS_AHEAD_S_MAX = 60;

/** Versions only rise: if an earlier clock was ahead, entities written now get timestamps after its last time. */
function warnOfVersionsAhead(engine: LmdbEngine, log: Logger): void {
  const { versionsReserved } = engine.meta();
  const aheadSeconds = Math.round(versionsReserved / 1e6 - systemClock.now() / 1000);
  if (aheadSeconds <= VERSIONS_AHEAD_S_MAX) return;
  log.warn(
    { location: engine.path, aheadSeconds, until: new Date(versionsReserved / 1000).toISOString() },
    "the data was written by a clock ahead of this machine's: until this clock catches up, Timestamps continue from that time",
  );
}

function warnOfLongFreeList(engine: LmdbEngine, log: Logger): void {
  const { freeListPages } = engine.statistics();
  if (freeListPages <= LONG_FREE_LIST_PAGES) return;
  log.warn(
    { location: engine.path, freeListPages },
    "data.mdb has a long list of free pages, which slows every write: stop the server, take a backup with `rowhouse backup`, and serve the copy",
  );
}

async function openPostgres(
  url: string,
  options: EngineOptions,
  log: Logger,
): Promise<OpenedEngine> {
  // Loaded only if needed: without a database, the driver would be a third of the start-up time.
  const { openPostgresEngine } = await import("@rowhouse/server/engine/postgres/postgres-engine");
  const { allowUnsafeEngine, preparedStatements, engineConnections, requireDurability } = options;
  const engine = await openPostgresEngine({
    url,
    allowUnsafe: allowUnsafeEngine ?? false,
    preparedStatements,
    requireDurability,
    onDurability(now, before) {
      const isLess = now.machines < before.machines || now.keeps.size < before.keeps.size;
      const level = isLess ? "error" : "warn";
      log[level](
        { engine: "postgres", durability: now.class, before: before.class },
        `what an acknowledged write means has changed: ${now.detail}`,
      );
    },
    ...(engineConnections === undefined ? {} : { writersMax: engineConnections }),
  });
  const { durability } = engine;
  log.info({ engine: engine.name, durability: durability.class }, durability.detail);
  const trouble = new TroubleLog(log);
  const secondary = await openSecondary(engine, options);
  return {
    engine,
    ...(secondary && { secondary }),
    durableMachines: () => engine.durability.machines,
    ...(engine.facts.dialect === "citus" && {
      nodesOf: (partitions) => engine.nodesOf(partitions),
    }),
    async health() {
      const { ready, durabilityClass, detail } = await engine.health();
      trouble.report(ready ? undefined : detail);
      return {
        ready,
        detail: {
          engine: engine.name,
          durability: durabilityClass,
          detail: ready ? detail : SEE_LOG,
        },
      };
    },
  };
}

async function openSecondary(
  primary: PostgresEngine,
  { preparedStatements, readStandby: url }: EngineOptions,
): Promise<SecondaryEngine | undefined> {
  if (url === undefined) return undefined;
  try {
    const { openStandbyEngine } = await import("@rowhouse/server/engine/postgres/standby-engine");
    const engine = openStandbyEngine(primary, { url, preparedStatements });
    return { engine, syncedAt: () => engine.syncedAt() };
  } catch (error) {
    await primary.close();
    throw error;
  }
}
