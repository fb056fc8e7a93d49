import type { PostgresConfig } from "./config.ts";
import { type ConnectOptions, connect, type Greeting } from "./connect.ts";
import type { Session } from "./session.ts";
import { ServerError } from "./sql-state.ts";

export interface ConnectorOptions extends ConnectOptions {
  /** Accept servers that may lose acknowledged writes in a crash. */
  readonly allowUnsafe: boolean;
}

/**
 * Opens connections to the server that accepts writes and keeps them. With several hosts it begins at the one
 * that answered last and tries each in turn; a standby is skipped immediately. Nothing is remembered about
 * the others, because a failover may make any of them the primary.
 */
export class Connector {
  readonly #config: PostgresConfig;
  readonly #options: ConnectorOptions;
  #hostIndex = 0;

  constructor(config: PostgresConfig, options: ConnectorOptions) {
    this.#config = config;
    this.#options = options;
  }

  /**
   * @param signal gives the attempt up
   * @throws the error of the host that came nearest to answering.
   */
  async connect(signal?: AbortSignal): Promise<Session> {
    const { hosts } = this.#config;
    let worst: unknown;
    for (let turn = 0; turn < hosts.length; turn++) {
      const index = (this.#hostIndex + turn) % hosts.length;
      try {
        const host = hosts[index]!;
        const { session, greeting } = await connect(this.#config, host, this.#options, signal);
        const refusal = this.#refusal(host.host, greeting);
        if (refusal === undefined) {
          this.#hostIndex = index;
          return session;
        }
        session.close();
        worst = moreTelling(worst, refusal);
      } catch (error) {
        worst = moreTelling(worst, error);
      }
    }
    throw worst;
  }

  /** Checked for every connection: a failover may lead to a server with other settings. */
  #refusal(host: string, { isReadOnly, isUnsafe }: Greeting): ServerError | undefined {
    if (isReadOnly) return refusal("25006", `${host} is a standby`);
    if (isUnsafe && !this.#options.allowUnsafe) {
      return refusal("57P03", `${host} would lose acknowledged writes in a crash`);
    }
    return undefined;
  }
}

function refusal(sqlState: string, message: string): ServerError {
  return new ServerError(
    new Map([
      ["C", sqlState],
      ["M", message],
    ]),
  );
}

/** An error that a server reported says more than that another could not be reached. */
function moreTelling(known: unknown, error: unknown): unknown {
  return known instanceof ServerError && !(error instanceof ServerError) ? known : error;
}
