import { randomBytes } from "node:crypto";
import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { MemoryContentStore } from "@rowhouse/server/content/memory-content-store";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import { startServer } from "@rowhouse/server/server";
import type { Account } from "@rowhouse/server/wire/account";
import type { Gate } from "@rowhouse/server/wire/gate";
import { SERVICE_NAMES } from "@rowhouse/server/wire/service-name";
import { connectionString } from "./connection-string.ts";
import { seed } from "./seed.ts";
import { openFaultGate } from "./serve/watch-faults.ts";
import { PlanLog, scansAmong } from "./testing/plan-log.ts";

export interface StartOptions {
  /** Default: in memory. A folder is created if it is missing, and kept. */
  readonly engine?: "memory" | { readonly path: string };
  /** Default: all three. */
  readonly services?: readonly TestService[];
  /** Default: a free port for each. */
  readonly ports?: Readonly<Partial<Record<TestService, number>>>;
  /** A folder with `tables/NAME.jsonl`, `tables/NAME.csv`, `queues/NAME.jsonl` and `blobs/CONTAINER/…` to begin with. */
  readonly seed?: string;
  /** Milliseconds since 1970. Default: the machine's. With a clock, signed requests may have any date. */
  readonly clock?: { now(): number };
  /** Faults from the start, such as `503 on InsertEntity of Orders rate 0.1`; see `faults`. */
  readonly faults?: string;
}

export type TestService = "table" | "queue" | "blob";

/** One query that the server answered, or one page of it. */
export interface LoggedQuery {
  readonly account: string;
  readonly table: string;
  /** Cheapest first. The last three are scans. */
  readonly class:
    | "nothing"
    | "point query"
    | "range query"
    | "partition scan"
    | "partition range"
    | "table scan";
  /** How it was read, in words. */
  readonly plan: string;
  /** As sent; undefined for an entity requested by its keys. */
  readonly filter: string | undefined;
  readonly entitiesRead: number;
  readonly entitiesReturned: number;
}

/** An account and how clients reach it. */
export interface TestAccount {
  readonly name: string;
  /** In base64. */
  readonly key: string;
  readonly connectionString: string;
}

export interface TestServer extends TestAccount {
  /** Of each started service, such as `http://127.0.0.1:37411`. */
  readonly urls: Readonly<Partial<Record<TestService, string>>>;
  /** For the clients of the official libraries, which refuse plain HTTP without being told. */
  readonly clientOptions: { readonly allowInsecureConnection: true };
  /** The number of queries so far, for `queries` and `assertNothingScanned`. */
  mark(): number;
  /** The queries since a mark; without one, since the start or the last reset. At most the last 10,000. */
  queries(options?: { readonly since?: number }): readonly LoggedQuery[];
  /** @throws Error that lists every query that read a whole partition or more */
  assertNothingScanned(options?: { readonly since?: number }): void;
  /**
   * Makes requests fail or wait from now on, by rules such as `503 on InsertEntity of Orders rate 0.1; delay 200 on
   * GetMessages`; without rules, no more. @throws Error that quotes what it does not accept
   */
  faults(rules?: string): void;
  /** One more account, empty, for tests that share the server. */
  createAccount(): Promise<TestAccount>;
  /** Empties every account, forgets queries and faults, and loads the seed again. Ports and accounts stay. */
  reset(): Promise<void>;
  /** Finishes requests in flight and releases everything. A folder stays. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts a server in this process. It handles no signals and prints nothing, and any number may run at once.
 * @throws Error if a port is taken, or the seed or the faults are not accepted
 */
export async function startRowhouse(options: StartOptions = {}): Promise<TestServer> {
  const { clock, ports = {}, services = SERVICE_NAMES } = options;
  const accounts: Account[] = [DEVELOPMENT_ACCOUNT];
  const log = new PlanLog();
  const gate = new ChangingGate();
  const { engine, contentStore } = await openEngine(options);
  const server = await startServer({
    accounts: new Accounts(accounts),
    engine,
    ...(contentStore && { contentStore }),
    listen: Object.fromEntries(
      services.map((name) => [name, { host: "127.0.0.1", port: ports[name] ?? 0 }]),
    ),
    insight: {
      admitQuery() {},
      admitWrite() {},
      queried: (query, cost) => log.queried(query, cost),
    },
    gate,
    ...(clock && { clock, checkDate: false }),
  });
  const describe = (account: Account): TestAccount => ({
    name: account.name,
    key: Buffer.from(account.keys[0]!).toString("base64"),
    connectionString: connectionString(server.urls, account),
  });
  const begin = async () => {
    if (options.seed !== undefined) await seed(options.seed, server, DEVELOPMENT_ACCOUNT);
    gate.use(options.faults);
  };
  try {
    await begin();
  } catch (error) {
    await server.close();
    throw error;
  }
  return {
    ...describe(DEVELOPMENT_ACCOUNT),
    urls: server.urls,
    clientOptions: { allowInsecureConnection: true },
    mark: () => log.count,
    queries: ({ since = 0 } = {}) => log.since(since),
    assertNothingScanned({ since = 0 } = {}) {
      const scans = scansAmong(log.since(since));
      if (scans.length > 0) throw new Error(printScans(scans));
    },
    faults: (rules) => gate.use(rules),
    async createAccount() {
      const name = `test${randomBytes(8).toString("hex")}`;
      const account = { name, keys: [randomBytes(64)] };
      accounts.push(account);
      await server.admit({ accounts: new Accounts(accounts), bearer: undefined });
      return describe(account);
    },
    async reset() {
      gate.use(undefined);
      for (const { name } of accounts) await server.empty(name);
      await begin();
      log.clear();
    },
    close: () => server.close(),
    [Symbol.asyncDispose]: () => server.close(),
  };
}

/** The embedded engine has parts that not every test runner can load, so it is loaded only where it is asked for. */
async function openEngine({ engine = "memory" }: StartOptions) {
  if (engine === "memory") {
    return { engine: new MemoryEngine(), contentStore: new MemoryContentStore() };
  }
  const { openLmdbEngine } = await import("@rowhouse/server/engine/lmdb/lmdb-engine");
  return { engine: await openLmdbEngine({ path: engine.path }), contentStore: undefined };
}

/** A gate whose rules change while the server runs. */
class ChangingGate implements Gate {
  #rules: Gate | undefined;

  use(rules: string | undefined): void {
    this.#rules = rules === undefined ? undefined : openFaultGate(rules);
  }

  enter(...facts: Parameters<Gate["enter"]>) {
    return this.#rules?.enter(...facts);
  }
}

const SCANS_SHOWN = 10;

function printScans(scans: readonly LoggedQuery[]): string {
  const lines = scans
    .slice(0, SCANS_SHOWN)
    .map(
      ({ table, plan, entitiesRead, entitiesReturned }) =>
        `  ${table}: ${plan}, read ${entitiesRead} entities to return ${entitiesReturned}`,
    );
  const more = scans.length > SCANS_SHOWN ? [`  and ${scans.length - SCANS_SHOWN} more`] : [];
  const what = scans.length === 1 ? "A query scanned" : `${scans.length} queries scanned`;
  return [`${what}:`, ...lines, ...more].join("\n");
}
