import { type ConnectOptions, connect, type Database } from "../database.ts";
import { PortError } from "../ports/port-error.ts";
import { deadlineOf, type Layer, type PortCall } from "../store/layer.ts";
import { FakeClock, seededRandom } from "./fake-clock.ts";
import { intercept, type Ports } from "./intercept.ts";
import { type Memory, memory } from "./memory.ts";

export type Client = (database: Database) => Promise<unknown>;

export interface InterleaveOptions {
  readonly clients: Readonly<Record<string, Client>>;
  /** Prepares what is stored; runs again for every schedule. */
  readonly before?: (database: Database) => Promise<unknown>;
  /** Checks the state after each request: what must hold at every moment. */
  readonly always?: (backend: Memory) => Promise<unknown>;
  /** Runs once all clients have ended. */
  readonly recover?: (database: Database) => Promise<unknown>;
  readonly check: (database: Database, backend: Memory) => Promise<unknown>;
  readonly backend?: (clock: FakeClock, seed: number) => Memory;
  /** Further options for the clients' `connect`. */
  readonly connect?: Partial<ConnectOptions>;
  /** Schedules to try. Default: 200. `all` tries every one: for two clients with few requests. */
  readonly runs?: number | "all";
  /** Default: a random one. A failure names the seed that reproduces it in one run. */
  readonly seed?: number;
  /** How often a client crashes in the middle of a request, from 0 to 1. Default: never. */
  readonly crashShare?: number;
  /** Steps by which time may advance while a request is in flight; by default only sleeping advances it. */
  readonly pausesMs?: readonly number[];
  /**
   * A layer around each client's requests, with which a test can change what the client does. Through `ports`
   * it may send requests of its own, which stop like all others.
   */
  readonly layer?: (client: string, ports: Ports) => Layer;
}

/** What may happen next: a client's request reaches the service, or a client wakes up. */
interface Pending {
  readonly client: string;
  readonly call: PortCall | undefined;
  readonly wakeAt: number;
  readonly abandon: (() => void) | undefined;
  go(how: "on" | "crash"): void;
}

/** Chooses one of `count` possibilities; `calm` is the one that disturbs nothing. */
type Choose = (count: number, calm: number) => number;

const PAUSE_SHARE = 0.1;
const RUNS = 200;
const SHRINKS_MAX = 200;
const STEPS_MAX = 10_000;
const STEPS_SHOWN = 200;

/**
 * Runs clients concurrently. Each stops before every request, and chance decides which one continues (or every
 * possibility is tried in turn). A request with a timeout is refused when it arrives too late, as the service
 * does.
 * @returns the number of schedules tried.
 * @throws an Error with the seed and the shortest failing schedule found, and the failure as its cause.
 */
export async function interleave(options: InterleaveOptions): Promise<number> {
  const { runs = RUNS, seed = Math.floor(Math.random() * 1e9) } = options;
  if (runs === "all") return interleaveAll(options, seed);
  for (let run = 0; run < runs; run++) {
    const random = seededRandom(seed + run);
    const drawn: number[] = [];
    const failure = await attempt(options, seed + run, (count) => {
      const choice = Math.floor(random() * count);
      drawn.push(choice);
      return choice;
    });
    if (failure) throw await shrunk(options, seed + run, drawn, failure);
  }
  return runs;
}

async function interleaveAll(options: InterleaveOptions, seed: number): Promise<number> {
  for (let runs = 1, path: { choice: number; count: number }[] = []; ; runs++) {
    let at = 0;
    const failure = await attempt(options, seed, (count) => {
      path[at] ??= { choice: 0, count };
      return path[at++]!.choice;
    });
    if (failure) throw describe(seed, failure);
    path = path.slice(0, at);
    while (path.length > 0 && path.at(-1)!.choice === path.at(-1)!.count - 1) path.pop();
    if (path.length === 0) return runs;
    path.at(-1)!.choice++;
  }
}

/** Looks for a short beginning of the schedule that fails when all further choices are calm. */
async function shrunk(
  options: InterleaveOptions,
  seed: number,
  drawn: readonly number[],
  failure: Failure,
): Promise<Error> {
  let best = failure;
  for (let length = 0; length < Math.min(drawn.length, SHRINKS_MAX); length++) {
    let at = 0;
    const next = await attempt(options, seed, (count, calm) =>
      at < length ? drawn[at++]! % count : calm,
    );
    if (next) {
      best = next;
      break;
    }
  }
  return describe(seed, best);
}

interface Failure {
  readonly cause: unknown;
  readonly schedule: readonly string[];
}

function describe(seed: number, { cause, schedule }: Failure): Error {
  const message = cause instanceof Error ? cause.message : String(cause);
  const steps = schedule
    .slice(0, STEPS_SHOWN)
    .map((step) => `\n  ${step}`)
    .join("");
  return new Error(`Fails with { seed: ${seed}, runs: 1 }: ${message}${steps}`, { cause });
}

async function attempt(
  options: InterleaveOptions,
  seed: number,
  choose: Choose,
): Promise<Failure | undefined> {
  const { before, always, recover, check, crashShare = 0, pausesMs = [] } = options;
  const schedule: string[] = [];
  const stage = new Stage(options, seed);
  const { backend } = stage;
  try {
    await before?.(connect(backend));
    stage.start();
    // Shares are rounded to one in a hundred.
    const happens = (share: number) => share > 0 && choose(100, 99) < share * 100;
    while (await stage.hasPending()) {
      const { pending, clock } = stage;
      if (schedule.length === STEPS_MAX) throw new Error("The schedule does not end.");
      if (pausesMs.length > 0 && happens(PAUSE_SHARE)) {
        const ms = pausesMs[choose(pausesMs.length, 0)]!;
        clock.advance(ms);
        schedule.push(`${ms} ms pass`);
      }
      const next = pending.splice(choose(pending.length, 0), 1)[0]!;
      const crashes = happens(crashShare);
      schedule.push(print(next) + (crashes ? " and crashes" : ""));
      if (crashes) stage.bury(next.client);
      clock.reach(next.wakeAt);
      next.go(crashes ? "crash" : "on");
      if (always) {
        await stage.idle();
        await always(backend);
      }
    }
    stage.end();
    const database = connect(backend);
    await recover?.(database);
    await check(database, backend);
    return undefined;
  } catch (cause) {
    return { cause, schedule };
  }
}

/** The clients of one schedule and what they wait for. */
class Stage {
  readonly clock: StageClock;
  readonly backend: Memory;
  readonly pending: Pending[] = [];
  readonly #options: InterleaveOptions;
  readonly #seed: number;
  readonly #alive = new Set<string>();
  #failure: { readonly cause: unknown } | undefined;

  constructor(options: InterleaveOptions, seed: number) {
    this.#options = options;
    this.#seed = seed;
    this.clock = new StageClock();
    this.backend = options.backend?.(this.clock, seed) ?? memory({ clock: this.clock, seed });
  }

  start(): void {
    for (const [i, [name, client]] of Object.entries(this.#options.clients).entries()) {
      this.#alive.add(name);
      const ports = intercept(this.backend, (call, send) => this.#stop(name, call, send));
      const layer = this.#options.layer?.(name, ports);
      const database = connect({
        ...this.backend,
        ...this.#options.connect,
        ...(layer ? intercept(ports, layer) : ports),
        random: seededRandom(this.#seed * 31 + i),
        clock: {
          now: () => this.clock.now(),
          sleep: (ms, signal) => this.#sleep(name, ms, signal),
          alarm: (ms, signal) => this.#sleep(name, ms, signal),
        },
      });
      client(database).then(
        () => this.#alive.delete(name),
        (cause) => {
          this.#alive.delete(name);
          this.#failure ??= { cause };
        },
      );
    }
  }

  /** Whether anything is left to happen. @throws the error that a client ended with. */
  async hasPending(): Promise<boolean> {
    for (let idle = 0; ; idle++) {
      await this.idle();
      if (this.#failure) throw this.#failure.cause;
      if (this.pending.length > 0 || this.#alive.size === 0) return this.pending.length > 0;
      if (idle === 1000) throw new Error("A client waits for something other than a request.");
    }
  }

  /** Resolves when every client has stopped: everything that is ready runs before the next macrotask. */
  idle(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }

  /** Stops the client for good. */
  bury(client: string): void {
    this.#alive.delete(client);
    for (let i = this.pending.length - 1; i >= 0; i--) {
      if (this.pending[i]!.client === client) this.pending.splice(i, 1);
    }
  }

  end(): void {
    this.#alive.clear();
  }

  async #stop(client: string, call: PortCall, send: () => Promise<unknown>): Promise<unknown> {
    const since = this.clock.now();
    const how = await this.#wait(client, call, since);
    const { timeoutS = Number.POSITIVE_INFINITY } = deadlineOf(call);
    if (this.clock.now() - since > timeoutS * 1000) {
      throw new PortError("The request arrived after its deadline.", {
        status: 500,
        code: "OperationTimedOut",
      });
    }
    const answer = send();
    if (how === "on") return answer;
    await answer.catch(() => undefined);
    return new Promise(() => {});
  }

  async #sleep(client: string, ms: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const wakeAt = this.clock.now() + Math.ceil(ms);
    let abandon: () => void = () => {};
    const abandoned = new Promise<never>((_resolve, reject) => {
      abandon = () => {
        const at = this.pending.findIndex((pending) => pending.abandon === abandon);
        if (at >= 0) this.pending.splice(at, 1);
        reject(signal?.reason);
      };
    });
    signal?.addEventListener("abort", abandon, { once: true });
    await Promise.race([this.#wait(client, undefined, wakeAt, abandon), abandoned]);
    signal?.removeEventListener("abort", abandon);
  }

  #wait(
    client: string,
    call: PortCall | undefined,
    wakeAt: number,
    abandon?: () => void,
  ): Promise<"on" | "crash"> {
    if (!this.#alive.has(client)) return new Promise(() => {});
    return new Promise((resolve) => {
      this.pending.push({ client, call, wakeAt, abandon, go: resolve });
    });
  }
}

class StageClock extends FakeClock {
  /** Advances to `time`, never back. */
  reach(time: number): void {
    this.advance(Math.max(0, time - this.now()));
  }
}

function print({ client, call }: Pending): string {
  if (!call) return `${client} wakes`;
  const [target, detail] = call.args;
  return `${client}: ${call.method} ${String(target)} ${JSON.stringify(detail)?.slice(0, 160)}`;
}
