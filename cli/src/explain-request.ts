import { parseTableEndpoint, TableConnection, type TableRequest } from "./move/table-endpoint.ts";
import { assertReachable } from "./reachable.ts";

export interface SignedAnswer {
  /** The URL that was asked, without credentials: an endpoint as it is given may contain a key. */
  readonly endpoint: string;
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/**
 * Sends one request, by default a GET, to a table endpoint, which `parseTableEndpoint` reads.
 * @throws Error if `against` names no endpoint, no key is known for the account, or nothing serves there
 */
export async function fetchSigned(
  against: string,
  path: string,
  query: string,
  environment: NodeJS.ProcessEnv,
  {
    method = "GET",
    body,
  }: { readonly method?: TableRequest["method"]; readonly body?: string } = {},
): Promise<SignedAnswer> {
  const endpoint = parseTableEndpoint(against, environment);
  await assertReachable(new URL(endpoint.url), environment);
  const connection = new TableConnection({ endpoint, attemptsMax: 1 });
  const headers = {
    Accept: "application/json;odata=nometadata",
    ...(body !== undefined && { "Content-Type": "application/json" }),
  };
  const sent = body === undefined ? {} : { body: Buffer.from(body, "utf8") };
  const answer = await connection.send({ method, path, query, headers, ...sent });
  return { ...answer, endpoint: endpoint.url, body: answer.body.toString("utf8") };
}

/** The message in a JSON or XML error body; the start of any other body. */
export function messageIn(body: string): string {
  const [, json, xml] = /"value":("(?:[^"\\]|\\.)*")|<Message>([^<]*)/.exec(body) ?? [];
  const message = json === undefined ? (xml ?? body) : unquoted(json);
  const [line = ""] = message.split("\n");
  return line.length <= MESSAGE_LENGTH_MAX ? line : `${line.slice(0, MESSAGE_LENGTH_MAX)}...`;
}

/** A page of HTML can be one long line. */
const MESSAGE_LENGTH_MAX = 1000;

function unquoted(json: string): string {
  try {
    return String(JSON.parse(json));
  } catch {
    return json;
  }
}
