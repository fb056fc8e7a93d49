import { parseTableEndpoint, TableConnection } from "./move/table-endpoint.ts";
import { assertReachable } from "./reachable.ts";

export interface SignedAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/**
 * Sends one GET to a table endpoint, which `parseTableEndpoint` reads.
 * @throws Error if `against` names no endpoint, no key is known for the account, or nothing serves there
 */
export async function fetchSigned(
  against: string,
  path: string,
  query: string,
  environment: NodeJS.ProcessEnv,
): Promise<SignedAnswer> {
  const endpoint = parseTableEndpoint(against, environment);
  await assertReachable(new URL(endpoint.url), environment);
  const connection = new TableConnection({ endpoint, attemptsMax: 1 });
  const headers = { Accept: "application/json;odata=nometadata" };
  const answer = await connection.send({ method: "GET", path, query, headers });
  return { ...answer, body: answer.body.toString("utf8") };
}
