import { Accounts, DEVELOPMENT_ACCOUNT } from "@rowhouse/server/auth/accounts";
import { openTestEngine } from "../support/test-engine.ts";
import { HttpConnection } from "./http-connection.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";

/** When the recorded requests were made; their signatures are of this time. */
const NOW = Date.UTC(2021, 0, 6, 1, 1, 30);
/** Nothing that is answered takes this long, on the busiest machine; what does, hangs. */
const HANG_MS = 60_000;

export interface Reply {
  /** All that came until the server ended the connection. */
  readonly bytes: string;
  readonly hung: boolean;
}

/**
 * Two servers in one state, which the same requests keep the same: one reads with node:http alone,
 * the other with the fast lane in front. Time stands still, so answers differ by their ids only.
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

  /** Sends bytes to both, piece by piece, then ends its side; reads what each says. */
  async send(pieces: readonly (string | Uint8Array)[]): Promise<{ node: Reply; fast: Reply }> {
    const [node, fast] = await Promise.all(this.#servers.map(({ url }) => exchange(url, pieces)));
    return { node: node!, fast: fast! };
  }

  /** What neither server could tell in an answer: bugs, all of them. */
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
 * Without what no two answers share: ids, and how long the engine took. Nor do they share `100 Continue`:
 * to a request that waits behind another, node:http says it or not.
 */
function generalised(text: string): string {
  return text
    .replaceAll("HTTP/1.1 100 Continue\r\n\r\n", "")
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "ID")
    .replace(/engine-us=\d+/g, "engine-us=N");
}
