import type { PostgresConfig } from "./config.ts";
import { type ConnectOptions, connect } from "./connect.ts";
import type { Session } from "./session.ts";
import { ServerError } from "./sql-state.ts";

/**
 * Opens connections to the server that takes writes. With several hosts it begins at the one that
 * answered last and goes round; a standby is left at once. Nothing is remembered about the others,
 * because a failover may make any of them the primary.
 */
export class Connector {
  readonly #config: PostgresConfig;
  readonly #options: ConnectOptions;
  #hostIndex = 0;

  constructor(config: PostgresConfig, options: ConnectOptions) {
    this.#config = config;
    this.#options = options;
  }

  /** @throws the error of the host that came nearest to answering. */
  async connect(): Promise<Session> {
    const { hosts } = this.#config;
    let worst: unknown;
    for (let turn = 0; turn < hosts.length; turn++) {
      const index = (this.#hostIndex + turn) % hosts.length;
      try {
        const { session, greeting } = await connect(this.#config, hosts[index]!, this.#options);
        if (!greeting.isReadOnly) {
          this.#hostIndex = index;
          return session;
        }
        session.close();
        worst = moreTelling(worst, standbyError(hosts[index]!.host));
      } catch (error) {
        worst = moreTelling(worst, error);
      }
    }
    throw worst;
  }
}

function standbyError(host: string): ServerError {
  return new ServerError(
    new Map([
      ["C", "25006"],
      ["M", `${host} is a standby`],
    ]),
  );
}

/** What a server said tells more than that another could not be reached. */
function moreTelling(known: unknown, error: unknown): unknown {
  return known instanceof ServerError && !(error instanceof ServerError) ? known : error;
}
