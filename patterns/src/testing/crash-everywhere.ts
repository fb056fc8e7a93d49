import { type ConnectOptions, connect, type Database } from "../database.ts";
import type { Clock } from "../store/clock.ts";
import type { Layer, PortCall } from "../store/layer.ts";
import { intercept } from "./intercept.ts";
import { type Memory, memory } from "./memory.ts";

export interface CrashOptions {
  /** Prepares what is stored; runs again for every crash. */
  readonly before?: (database: Database) => Promise<unknown>;
  /** The recovery: workers until their queues are empty, scrubs, the caller's second attempt. */
  readonly recover?: (database: Database) => Promise<unknown>;
  /** Rejects when something was lost. The database is a new one, on what the crash left. */
  readonly check: (database: Database, backend: Memory) => Promise<unknown>;
  readonly backend?: () => Memory;
  /** Further options for the operation's `connect`. */
  readonly connect?: Partial<ConnectOptions>;
  /** How long nothing happens between the crash and the recovery. Default: two minutes. */
  readonly idleMs?: number;
}

/** Where the process crashed: before a request was sent, or before its answer arrived. */
export interface CrashPoint {
  readonly request: number;
  readonly call: PortCall;
  readonly when: "before it was sent" | "before its answer";
}

const IDLE_MS = 120_000;

/**
 * Runs `operation` once to count its requests, then again for each of them with a crash before it is sent, and
 * with a crash before its answer arrives: no `catch` and no `finally` of the operation runs after it. Then time
 * passes, `recover` runs and `check` checks the result.
 * @returns the number of crashes survived.
 * @throws an Error that names the crash point, with the error of the recovery or the check as its cause.
 */
export async function crashEverywhere(
  operation: (database: Database) => Promise<unknown>,
  options: CrashOptions,
): Promise<number> {
  const calls: PortCall[] = [];
  await attempt(options, operation, (call) => {
    calls.push(call);
    return undefined;
  });
  for (const [i, call] of calls.entries()) {
    for (const when of ["before it was sent", "before its answer"] as const) {
      const point: CrashPoint = { request: i + 1, call, when };
      await attempt(options, operation, (_call, count) => (count === i + 1 ? point : undefined));
    }
  }
  return 2 * calls.length;
}

async function attempt(
  {
    before,
    recover,
    check,
    backend: open = memory,
    connect: options,
    idleMs = IDLE_MS,
  }: CrashOptions,
  operation: (database: Database) => Promise<unknown>,
  crashAt: (call: PortCall, count: number) => CrashPoint | undefined,
): Promise<void> {
  const backend = open();
  await before?.(connect(backend));
  let crashed: CrashPoint | undefined;
  let crash: () => void = () => {};
  const end = new Promise<void>((resolve) => {
    crash = resolve;
  });
  const never = new Promise<never>(() => {});
  let count = 0;
  const layer: Layer = async (call, send) => {
    if (crashed) return never;
    const point = crashAt(call, ++count);
    if (!point) return send();
    crashed = point;
    if (point.when === "before its answer") await send().catch(() => undefined);
    crash();
    return never;
  };
  const clock: Clock = {
    now: () => backend.clock.now(),
    sleep: (ms, signal) => (crashed ? never : backend.clock.sleep(ms, signal)),
    alarm: (ms, signal) => (crashed ? never : backend.clock.alarm(ms, signal)),
  };
  await Promise.race([
    operation(connect({ ...backend, ...options, ...intercept(backend, layer), clock })),
    end,
  ]);
  try {
    if (crashed) backend.clock.advance(idleMs);
    const database = connect(backend);
    await recover?.(database);
    await check(database, backend);
  } catch (cause) {
    throw crashed
      ? new Error(`Not recovered after a crash at ${print(crashed)}`, { cause })
      : cause;
  }
}

function print({ request, call, when }: CrashPoint): string {
  const { port, method, args } = call;
  return `request ${request}, ${when}: ${port}.${method} ${JSON.stringify(args).slice(0, 400)}`;
}
