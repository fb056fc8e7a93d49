import { randomInt } from "node:crypto";
import { toBuffer } from "../../byte-views.ts";
import { type Clock, systemClock } from "../../clock.ts";
import {
  type AtomicWrite,
  CALL_MS_MAX,
  type CommitResult,
  type Engine,
  EngineError,
  type Entry,
  type Key,
  type KeyRange,
  type ScanEnd,
  type ScanHints,
  type Supports,
  type Visit,
} from "../engine.ts";
import { assertKeyFits, assertWrite } from "../engine-rules.ts";
import { compareKeys, equalBytes } from "../key-codec.ts";
import { VersionClock } from "../version-clock.ts";
import { assertClock, CLOCK_SKEW_MS_MAX, clockAheadMs } from "./clock-skew.ts";
import { KEY_BYTES_MAX } from "./commit-plan.ts";
import { Commits } from "./commits.ts";
import { configOf, type DatabaseOptions, describeConfig } from "./config.ts";
import { applySettings, findCopyOfNames } from "./connect.ts";
import { Connector } from "./connector.ts";
import { type Durability, durabilityOf, type RequiredDurability } from "./durability.ts";
import { Fence } from "./fence.ts";
import { getEachPartition, isOneRead, pointRead } from "./get.ts";
import { toEngineError } from "./outcome.ts";
import { partInOneTable } from "./placement.ts";
import { PointReads } from "./point-reads.ts";
import { query } from "./query.ts";
import { Scans } from "./scans.ts";
import {
  assertKnown,
  FORMAT,
  FORMAT_ROW,
  installSchema,
  readFormat,
  UNSEALED_FORMAT,
} from "./schema.ts";
import { opened, sealed } from "./sealed-rows.ts";
import { readServerFacts, type ServerFacts } from "./server-facts.ts";
import type { Session } from "./session.ts";
import { SessionPool } from "./session-pool.ts";
import { sessionSettings } from "./session-settings.ts";
import { ServerError } from "./sql-state.ts";
import { NODES_OF, SYNCED_AT } from "./statements.ts";

export interface PostgresEngineOptions extends DatabaseOptions {
  readonly clock?: Clock;
  /** How far that clock may differ from the server's when the engine is opened. Default a minute. */
  readonly clockSkewMsMax?: number;
  /** Serve even from a server that would lose acknowledged writes in a crash. */
  readonly allowUnsafe?: boolean;
  /** Refuse a server that keeps less: at start, and each write while it does. */
  readonly requireDurability?: RequiredDurability | undefined;
  /** Called when the server's settings have changed what an acknowledgement means. */
  readonly onDurability?: (now: Durability, before: Durability) => void;
  /** False behind a pooler in transaction mode. */
  readonly preparedStatements?: boolean;
  /** Whether values have checksums in a table that this call creates. Default true; others stay as they are. */
  readonly checksums?: boolean;
  /** Create the table if it is missing. Default true; needs the right to do so. */
  readonly install?: boolean;
  /**
   * The time limit of a call, by default `CALL_MS_MAX`. A read that has to be cancelled may take one second
   * more, a commit that was repeated two, and one whose outcome has to be found out another two.
   */
  readonly timeoutMs?: number;
  /** Connections that write: those of all front ends together must stay below the server's `max_connections`. */
  readonly writersMax?: number;
}

export interface PostgresHealth {
  readonly ready: boolean;
  readonly durabilityClass: Durability["class"];
  readonly detail: string;
}

const WRITERS_MAX = 16;
const READERS_MAX = 2;
const SCANNERS_MAX = 4;
/** The most connections that one front end opens, unless configured otherwise. */
export const CONNECTIONS_MAX = WRITERS_MAX + READERS_MAX + SCANNERS_MAX;
const TICK_MS = 250;
const HEALTH_TIMEOUT_MS = 2_000;
/** How often the settings are looked at that decide what an acknowledgement means. */
const LOOK_MS = 1_000;

/**
 * Opens the store. Refuses a server that would lose acknowledged writes, one whose schema is newer than this
 * code, one that cannot be reached, and one whose clock differs too much from this machine's.
 * @throws EngineError `Unavailable`; RangeError for a malformed URL.
 */
export async function openPostgresEngine(options: PostgresEngineOptions): Promise<PostgresEngine> {
  const config = configOf(options);
  const timeoutMs = options.timeoutMs ?? CALL_MS_MAX;
  const preparedStatements = options.preparedStatements ?? true;
  let session: Session | undefined;
  try {
    // An unsafe server is refused below, with a reason.
    const fence = new Fence();
    const anySafety = { preparedStatements, settings: [], allowUnsafe: true, fence };
    session = await new Connector(config, anySafety).connect();
    const facts = await readServerFacts(session);
    const durability = durabilityOf(facts);
    if (durability.class === "none" && !options.allowUnsafe) {
      throw new EngineError(
        "Unavailable",
        `Refused to serve from ${describeConfig(config)} without --allowUnsafeEngine. ${durability.detail}`,
      );
    }
    const required = options.requireDurability;
    if (required !== undefined && !durability.keeps.has(required))
      throw tooWeak(required, durability);
    assertClock(
      clockAheadMs(facts, options.clock ?? systemClock),
      options.clockSkewMsMax ?? CLOCK_SKEW_MS_MAX,
    );
    const format = await assertSchema(session, facts, options);
    // This connection may be older than the tables.
    if (facts.dialect === "citus") await findCopyOfNames(session);
    // The settings depend on which kind of server answered.
    const settings = sessionSettings(timeoutMs, facts.dialect);
    if (preparedStatements) applySettings(session, settings);
    const allowUnsafe = options.allowUnsafe ?? false;
    const connector = new Connector(config, { preparedStatements, settings, allowUnsafe, fence });
    const isSealed = format > UNSEALED_FORMAT;
    return new PostgresEngine({
      ...options,
      connector,
      fence,
      session,
      facts,
      isSealed,
      timeoutMs,
    });
  } catch (error) {
    session?.close();
    throw toEngineError(error);
  }
}

function tooWeak(required: RequiredDurability, { class: found, detail }: Durability): EngineError {
  return new EngineError(
    "Unavailable",
    `Writes are refused: --require-durability ${required} was given, and the server's class is "${found}". ${detail}`,
  );
}

const MAY_NOT = "42501";

/** Returns the format of the schema. */
async function assertSchema(
  session: Session,
  facts: ServerFacts,
  { install = true, checksums = true }: PostgresEngineOptions,
): Promise<number> {
  let format = await readFormat(session, facts.dialect);
  if (format === undefined && install) {
    const own = checksums ? FORMAT : UNSEALED_FORMAT;
    await installSchema(session, facts.dialect, own).catch((cause: unknown) => {
      if (!(cause instanceof ServerError && cause.sqlState === MAY_NOT)) throw cause;
      throw new EngineError(
        "Unavailable",
        "The table rh_kv is missing, and this role may not create it: run `rowhouse engine install` as a role that may.",
        { cause },
      );
    });
    format = await readFormat(session, facts.dialect);
  }
  if (format === undefined) {
    throw new EngineError(
      "Unavailable",
      "The table rh_kv is missing: run `rowhouse engine install`.",
    );
  }
  assertKnown(format);
  return format;
}

/** Stores entries as rows of one table of a PostgreSQL server, or of a Citus cluster. */
export class PostgresEngine implements Engine {
  readonly name = "postgres";
  readonly keyBytesMax = KEY_BYTES_MAX;
  readonly supports: Supports;
  /** What the server reported when the engine was opened. */
  readonly facts: ServerFacts;
  readonly #required: RequiredDurability | undefined;
  readonly #onDurability: PostgresEngineOptions["onDurability"];
  #durability: Durability;
  #isLooking = false;
  #looksAt = 0;
  readonly #scanners: SessionPool;
  readonly #versions: VersionClock;
  readonly #pools: readonly SessionPool[];
  readonly #writers: SessionPool;
  readonly #reads: PointReads;
  readonly #scans: Scans;
  readonly #commits: Commits;
  readonly #commitsUnderWay = new Set<Promise<unknown>>();
  readonly #timeoutMs: number;
  /** Whether values have checksums: those of a schema of format 1 have none. */
  readonly isSealed: boolean;
  /** What the connections to any of its servers have shown of the timelines. */
  readonly fence: Fence;
  readonly #ticker: NodeJS.Timeout;
  /** The server's report of damaged data. From then on nothing is read from it or written to it. */
  #damage: ServerError | undefined;
  #closing: Promise<void> | undefined;

  constructor(
    options: PostgresEngineOptions & {
      readonly connector: Connector;
      readonly fence?: Fence;
      /** The first connection, if it is already open. */
      readonly session: Session | undefined;
      readonly facts: ServerFacts;
      readonly isSealed: boolean;
      readonly timeoutMs: number;
    },
  ) {
    this.supports = {
      update: false,
      scanRanges: true,
      sharing: true,
      sealing: false,
      freePremises: false,
    };
    this.isSealed = options.isSealed;
    this.fence = options.fence ?? new Fence();
    this.facts = options.facts;
    this.#durability = durabilityOf(options.facts);
    this.#required = options.requireDurability;
    this.#onDurability = options.onDurability;
    this.#timeoutMs = options.timeoutMs;
    this.#versions = new VersionClock(options.clock ?? systemClock);
    this.#versions.takeSlot(randomInt(2 ** 32));
    this.#versions.raiseAbove(options.facts.clockMicroseconds);

    const connect = (signal: AbortSignal) => options.connector.connect(signal);
    const onCorrupt = (error: ServerError) => {
      this.#damage ??= error;
    };
    const poolOf = (sessionsMax: number) => new SessionPool({ connect, sessionsMax, onCorrupt });
    const readers = poolOf(READERS_MAX);
    const scanners = poolOf(SCANNERS_MAX);
    const writers = poolOf(options.writersMax ?? WRITERS_MAX);
    if (options.session) readers.adopt(options.session);
    this.#pools = [readers, scanners, writers];
    this.#writers = writers;
    this.#scanners = scanners;
    this.#reads = new PointReads(readers, {
      sessionsMax: READERS_MAX,
      dialect: options.facts.dialect,
    });
    this.#scans = new Scans({
      pool: scanners,
      dialect: options.facts.dialect,
      timeoutMs: options.timeoutMs,
    });
    this.#commits = new Commits({
      pool: writers,
      get: (keys, deadline) => this.#get(keys, deadline),
      versions: this.#versions,
      dialect: options.facts.dialect,
      timeoutMs: options.timeoutMs,
    });
    this.#ticker = setInterval(() => {
      const now = performance.now();
      for (const pool of this.#pools) pool.tick(now);
      void this.#lookAtDurability(now);
    }, TICK_MS);
    this.#ticker.unref();
  }

  /** What an acknowledgement means, as of a second ago. */
  get durability(): Durability {
    return this.#durability;
  }

  /** The settings of a server may change while it runs. */
  async #lookAtDurability(now: number): Promise<void> {
    const isWatched = this.#required !== undefined || this.#onDurability !== undefined;
    if (!isWatched || this.#isLooking || now < this.#looksAt || this.#closing) return;
    this.#isLooking = true;
    try {
      const session = await this.#scanners.acquire(now + LOOK_MS);
      const facts = await readServerFacts(session).finally(() => this.#scanners.release(session));
      const before = this.#durability;
      this.#durability = durabilityOf(facts);
      if (this.#durability.detail !== before.detail) this.#onDurability?.(this.#durability, before);
    } catch {
      // A server that cannot be asked acknowledges nothing either.
    }
    this.#isLooking = false;
    this.#looksAt = performance.now() + LOOK_MS;
  }

  nextVersion(): number {
    return this.#versions.next();
  }

  takeSlot(slot: number): void {
    this.#versions.takeSlot(slot);
  }

  /** Other front ends may come and go. */
  isShared(): boolean {
    return true;
  }

  /** Undefined: asking the database would cost a round trip. */
  newestCommit(): undefined {
    this.#assertOpen();
  }

  get(keys: readonly Key[], bytesMax?: number): Promise<(Entry | undefined)[]> {
    this.#assertOpen();
    for (const key of keys) assertKeyFits(key, KEY_BYTES_MAX);
    const deadline = performance.now() + this.#timeoutMs;
    const reading = this.#get(keys, deadline, bytesMax);
    if (bytesMax === undefined) return reading;
    // The order of rows is not guaranteed: others may have used up all room before the first one came.
    return reading.then((entries) =>
      entries.length > 0 ? entries : this.#get(keys.slice(0, 1), deadline),
    );
  }

  #get(
    keys: readonly Key[],
    deadline: number,
    bytesMax = Number.POSITIVE_INFINITY,
  ): Promise<(Entry | undefined)[]> {
    const room = { bytes: bytesMax };
    if (keys.length === 0) return Promise.resolve([]);
    const { dialect } = this.facts;
    // One statement is one snapshot. Shards have none in common: there each partition is read separately.
    if (!isOneRead(keys, dialect)) {
      const reading = getEachPartition(this.#reads, keys, { deadline, dialect, room });
      return reading.then((entries) => this.#see(entries));
    }
    return new Promise((settle, reject) => {
      const resolve = (entries: (Entry | undefined)[]) => {
        try {
          settle(this.#see(entries));
        } catch (error) {
          reject(error);
        }
      };
      this.#reads.submit(pointRead(keys, dialect, { deadline, room, resolve, reject }));
    });
  }

  /** A commit that checks what was read here gets a larger version, whatever this machine's clock says. */
  #see(entries: (Entry | undefined)[]): (Entry | undefined)[] {
    for (const entry of entries) if (entry) this.#versions.raiseAbove(entry.version);
    return this.isSealed ? entries.map((entry) => entry && opened(entry)) : entries;
  }

  scan(range: KeyRange, visit: Visit, hints?: ScanHints): Promise<ScanEnd> | ScanEnd {
    return this.scanRanges([range], visit, hints);
  }

  scanRanges(
    ranges: readonly KeyRange[],
    visit: Visit,
    hints?: ScanHints,
  ): Promise<ScanEnd> | ScanEnd {
    this.#assertOpen();
    const some = ranges.filter(({ start, end }) => !end || compareKeys(start, end) < 0);
    const [first] = some;
    if (first === undefined) return "complete";
    const visitOpened = this.isSealed ? openedVisit(visit, hints) : visit;
    return some.length > 1
      ? this.#scans.scan(some, visitOpened, hints)
      : this.#scan(first, visitOpened, hints);
  }

  /** Table by table, where a cluster has two. */
  async #scan(range: KeyRange, visit: Visit, hints?: ScanHints): Promise<ScanEnd> {
    const part = partInOneTable(range, this.facts.dialect);
    const end = await this.#scans.scan([part], visit, hints);
    if (end !== "complete" || part === range) return end;
    return this.#scan({ start: part.end!, end: range.end }, visit, hints);
  }

  async commit(write: AtomicWrite): Promise<CommitResult> {
    this.#assertOpen();
    assertWrite(write);
    if (this.#required !== undefined && !this.#durability.keeps.has(this.#required)) {
      throw tooWeak(this.#required, this.#durability);
    }
    for (const { key } of write.puts) assertWritable(key);
    for (const key of write.deletes) assertWritable(key);
    const stored = this.isSealed ? { ...write, puts: write.puts.map(sealed) } : write;
    const commit = this.#commits.commit(stored);
    this.#commitsUnderWay.add(commit);
    try {
      return await commit;
    } finally {
      this.#commitsUnderWay.delete(commit);
    }
  }

  /** On a cluster, the node that has each of these partitions, in their order; undefined where none is known. */
  async nodesOf(partitions: readonly Uint8Array[]): Promise<(string | undefined)[]> {
    this.#assertOpen();
    const nodes = new Array<string | undefined>(partitions.length).fill(undefined);
    if (this.facts.dialect !== "citus" || partitions.length === 0) return nodes;
    const names = partitions.map((partition) => toBuffer(partition).toString("hex")).join();
    const session = await this.#scanners.acquire(performance.now() + this.#timeoutMs);
    const asked = query(session, NODES_OF, [names], (row) => {
      nodes[row.int8() - 1] = row.text();
    });
    await asked.finally(() => this.#scanners.release(session));
    return nodes;
  }

  /**
   * Every write that was acknowledged before is seen here: milliseconds since 1970; of a standby by what it has
   * replayed. Undefined if the server does not answer within two seconds.
   */
  async syncedAt(): Promise<number | undefined> {
    this.#assertOpen();
    try {
      const session = await this.#scanners.acquire(performance.now() + HEALTH_TIMEOUT_MS);
      let milliseconds: number | undefined;
      const asked = query(session, SYNCED_AT, [], (row) => {
        milliseconds = row.int8();
      });
      await asked.finally(() => this.#scanners.release(session));
      return milliseconds;
    } catch {
      return undefined;
    }
  }

  /** Whether the store answers and accepts writes now, asked over a connection that is used for writes. */
  async health(): Promise<PostgresHealth> {
    const writers = this.#writers;
    try {
      this.#assertOpen();
      const timeoutMs = Math.min(HEALTH_TIMEOUT_MS, this.#timeoutMs);
      const session = await writers.acquire(performance.now() + timeoutMs);
      const durability = durabilityOf(
        await readServerFacts(session).finally(() => writers.release(session)),
      );
      const required = this.#required;
      const isWeak = required !== undefined && !durability.keeps.has(required);
      const detail = isWeak ? tooWeak(required, durability).message : durability.detail;
      return { ready: !isWeak, durabilityClass: durability.class, detail };
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      return { ready: false, durabilityClass: this.durability.class, detail };
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await Promise.allSettled(this.#commitsUnderWay);
    clearInterval(this.#ticker);
    for (const pool of this.#pools) pool.close();
  }

  #assertOpen(): void {
    if (this.#damage) {
      throw new EngineError(
        "Corrupt",
        `The database reported damaged data, so Rowhouse serves nothing from it until a restart: ${this.#damage.message} (SQLSTATE ${this.#damage.sqlState}).`,
        { cause: this.#damage },
      );
    }
    if (this.#closing) throw new EngineError("Closed", "The PostgreSQL engine is closed.");
  }
}

/** Leaves damaged entries out if that is wanted; otherwise they end the scan. */
function openedVisit(visit: Visit, hints: ScanHints | undefined): Visit {
  const onDamaged = hints?.onDamaged;
  return (entry) => {
    let intact: Entry;
    try {
      intact = opened(entry);
    } catch (error) {
      if (!onDamaged || !(error instanceof EngineError)) throw error;
      onDamaged(error);
      return true;
    }
    return visit(intact);
  };
}

function assertWritable({ partition, sort }: Key): void {
  if (partition.length === 0 && equalBytes(sort, FORMAT_ROW.sort)) {
    throw new RangeError(`The key ("", "schema") is reserved for the engine.`);
  }
}
