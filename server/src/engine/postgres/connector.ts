import type { PostgresConfig, PostgresHost } from "./config.ts";
import { type ConnectOptions, connect, type Greeting } from "./connect.ts";
import { Fence, type Lineage } from "./fence.ts";
import type { Session } from "./session.ts";
import { ServerError } from "./sql-state.ts";

export interface ConnectorOptions extends ConnectOptions {
  /** Accept servers that may lose acknowledged writes in a crash. */
  readonly allowUnsafe: boolean;
  /** Shared by the connectors of one front end. */
  readonly fence?: Fence;
  /** Only those that follow a primary, and not the primary. */
  readonly standbys?: true;
}

/** How long hosts are waited for that do not answer, when another one does. */
const PROBE_MS_MAX = 500;

/**
 * Opens connections to the server that accepts writes and keeps them, or to a standby of it. With several hosts all are
 * asked: a former primary accepts writes too, and only the others can tell.
 */
export class Connector {
  readonly #config: PostgresConfig;
  readonly #options: ConnectorOptions;
  readonly #fence: Fence;
  readonly #sessions = new Map<Session, Lineage>();
  #hostIndex = 0;

  constructor(config: PostgresConfig, options: ConnectorOptions) {
    this.#config = config;
    this.#options = options;
    this.#fence = options.fence ?? new Fence();
  }

  /**
   * @param signal gives the attempt up
   * @throws the error of the host that came nearest to answering.
   */
  async connect(signal?: AbortSignal): Promise<Session> {
    const { hosts } = this.#config;
    const order = hosts.map((_, turn) => (this.#hostIndex + turn) % hosts.length);
    const attempts = order.map((index) => this.#greet(hosts[index]!, signal));
    const answered = new Set<number>();
    for (const [turn, attempt] of attempts.entries()) {
      const answers = () => answered.add(turn);
      attempt.then(answers, answers);
    }
    await Promise.race([Promise.allSettled(attempts), answeredBefore(attempts, PROBE_MS_MAX)]);
    // A machine without power is waited for only if no other will do.
    const turns = [...attempts.keys()].sort(
      (a, b) => Number(answered.has(b)) - Number(answered.has(a)),
    );
    let chosen: Session | undefined;
    let worst: unknown;
    for (const turn of turns) {
      const attempt = attempts[turn]!;
      if (chosen !== undefined) {
        // Those that answer later still tell their timeline.
        void attempt.then(({ session }) => session.close()).catch(() => {});
        continue;
      }
      try {
        const { host, session, greeting } = await attempt;
        const refusal = this.#refusal(host, greeting);
        if (refusal === undefined) {
          this.#hostIndex = order[turn]!;
          chosen = session;
          if (greeting.lineage) this.#watch(session, greeting.lineage);
        } else {
          session.close();
          worst = moreTelling(worst, refusal);
        }
      } catch (error) {
        worst = moreTelling(worst, error);
      }
    }
    if (chosen === undefined) throw worst;
    return chosen;
  }

  async #greet(host: PostgresHost, signal: AbortSignal | undefined) {
    const { session, greeting } = await connect(this.#config, host, this.#options, signal);
    // A copy that somebody has made writable for himself is no reason to leave the primary.
    const counts = greeting.isReadOnly || !this.#options.standbys;
    if (counts && greeting.lineage && this.#fence.see(greeting.lineage)) this.#endFormer();
    return { host: host.host, session, greeting };
  }

  #watch(session: Session, lineage: Lineage): void {
    for (const known of this.#sessions.keys()) if (known.isLost) this.#sessions.delete(known);
    this.#sessions.set(session, lineage);
  }

  /** Sessions that lead to a former primary: it may still answer. */
  #endFormer(): void {
    for (const [session, lineage] of this.#sessions) {
      const refusal = this.#fence.refusal("The server", lineage);
      if (refusal !== undefined) session.destroy(new Error(refusal));
    }
  }

  /** Checked for every connection: a failover may lead to a server with other settings. */
  #refusal(host: string, { isReadOnly, isUnsafe, lineage }: Greeting): ServerError | undefined {
    const fenced = lineage && this.#fence.refusal(host, lineage);
    if (fenced !== undefined) return refusal("57P03", fenced);
    if (this.#options.standbys) {
      return isReadOnly ? undefined : refusal("57P03", `${host} is not a standby`);
    }
    if (isReadOnly) return refusal("25006", `${host} is a standby`);
    if (isUnsafe && !this.#options.allowUnsafe) {
      return refusal("57P03", `${host} would lose acknowledged writes in a crash`);
    }
    return undefined;
  }
}

/** Resolves this long after the first attempt succeeded. */
async function answeredBefore(attempts: readonly Promise<unknown>[], ms: number): Promise<void> {
  await Promise.any(attempts).catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, ms).unref());
}

function refusal(sqlState: string, message: string): ServerError {
  return new ServerError(
    new Map([
      ["C", sqlState],
      ["M", message],
    ]),
  );
}

/**
 * An error that a server reported says more than that another could not be reached, and that it must not be used more
 * than that it is a standby.
 */
function moreTelling(known: unknown, error: unknown): unknown {
  if (!(known instanceof ServerError)) return error;
  return error instanceof ServerError && known.fault === "standby" ? error : known;
}
