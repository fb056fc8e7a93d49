import { once } from "node:events";
import { connect } from "node:net";
import { messageOf } from "./message-of.ts";

/** A machine that is there answers a connection in a round trip; one that is not there would be waited for. */
const CONNECT_MS_MAX = 2000;

/**
 * Checks that something accepts connections at a URL, before requests that would be retried for a minute.
 * Does nothing where a proxy stands between: then requests are the only way to find out.
 * @throws Error that says what to do
 */
export async function assertReachable(
  url: URL,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<void> {
  const proxies = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
  if (proxies.some((name) => environment[name])) return;
  const port = Number(url.port || (url.protocol === "https:" ? 443 : 80));
  const socket = connect({ host: url.hostname.replace(/^\[|\]$/g, ""), port });
  const signal = AbortSignal.timeout(CONNECT_MS_MAX);
  try {
    await once(socket, "connect", { signal });
  } catch (cause) {
    const why = signal.aborted ? `no answer in ${CONNECT_MS_MAX / 1000} s` : messageOf(cause);
    throw new Error(
      `Nothing serves at ${url.origin} (${why}). Start a server there (rowhouse serve), or name another address.`,
      { cause },
    );
  } finally {
    socket.destroy();
  }
}

/** Where the tables of a connection string are; undefined if it does not say. */
export function tableUrlOf(connection: string): URL | undefined {
  const parts = new Map(
    connection.split(";").map((part) => {
      const [name = "", ...value] = part.split("=");
      return [name.trim().toLowerCase(), value.join("=").trim()] as const;
    }),
  );
  const protocol = parts.get("defaultendpointsprotocol") ?? "https";
  const [account, suffix] = [parts.get("accountname"), parts.get("endpointsuffix")];
  const text =
    parts.get("usedevelopmentstorage")?.toLowerCase() === "true"
      ? "http://127.0.0.1:10002"
      : (parts.get("tableendpoint") ??
        (account && suffix && `${protocol}://${account}.table.${suffix}`));
  return text && URL.canParse(text) ? new URL(text) : undefined;
}
