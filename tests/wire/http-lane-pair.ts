import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { openTestEngine } from "../support/test-engine.ts";
import { HttpConnection } from "./http-connection.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";

/** When the recorded requests were made; their signatures are for this time. */
const NOW = Date.UTC(2021, 0, 6, 1, 1, 30);
/** No answer takes this long, even on the busiest machine; a server that needs longer hangs. */
const HANG_MS = 60_000;

export interface Reply {
  /** All bytes received until the server closed the connection. */
  readonly bytes: string;
  readonly hung: boolean;
}

/**
 * Two servers in the same state, which receive the same requests: one reads with node:http alone, the other
 * with the fast lane in front. Time stands still, so answers differ only in their ids.
 */
export class LanePair {
  readonly #servers: readonly LocalServer[];
  readonly #faults: unknown[];

  private constructor(servers: readonly LocalServer[], faults: unknown[]) {
    this.#servers = servers;
    this.#faults = faults;
  }

  static async open(): Promise<LanePair> {
    const faults: unknown[] = [];
    const clock = { now: () => NOW };
    const servers = await Promise.all(
      (["node", "fast"] as const).map(async (lane) =>
        startLocalServer({
          lane,
          clock,
          accounts: new Accounts([DEVELOPMENT_ACCOUNT]),
          engine: await openTestEngine({ clock }),
          onError: (error) => faults.push(error),
        }),
      ),
    );
    return new LanePair(servers, faults);
  }

  /** Sends bytes to both, piece by piece, then ends the sending side; returns the bytes that each server sends. */
  async send(pieces: readonly (string | Uint8Array)[]): Promise<{ node: Reply; fast: Reply }> {
    const [node, fast] = await Promise.all(this.#servers.map(({ url }) => exchange(url, pieces)));
    return { node: node!, fast: fast! };
  }

  /** Faults that neither server could report in an answer: all of them are bugs. */
  get faults(): readonly unknown[] {
    return this.#faults;
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()));
  }
}

async function exchange(url: string, pieces: readonly (string | Uint8Array)[]): Promise<Reply> {
  const connection = await HttpConnection.open(new URL(url));
  let hung = false;
  const guard = setTimeout(() => {
    hung = true;
    connection.destroy();
  }, HANG_MS);
  for (const [i, piece] of pieces.entries()) {
    if (i > 0) await new Promise((resolve) => setImmediate(resolve));
    connection.write(piece);
  }
  connection.end();
  const bytes = await connection.rest();
  clearTimeout(guard);
  connection.destroy();
  return { bytes: generalised(bytes.toString("latin1")), hung };
}

/**
 * Removes what differs between any two answers: ids, and the engine's time. Also removes `100 Continue`, which
 * node:http sends or omits for a request that waits behind another.
 */
function generalised(text: string): string {
  return text
    .replaceAll("HTTP/1.1 100 Continue\r\n\r\n", "")
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "ID")
    .replace(/engine-us=\d+/g, "engine-us=N");
}
