import { tableError } from "../errors.ts";
import { keyOf, printKey } from "../ports/mutation.ts";
import { isRefusalInside, PortError } from "../ports/port-error.ts";
import type { EntityKey, Mutation, StoredEntity, TablesPort } from "../ports/tables.ts";
import { type Layer, sendByMs } from "./layer.ts";
import type { Retry } from "./retry.ts";
import { tokensOf, verdict, WRITE_TOKENS } from "./write-token.ts";

/** A well-formed ETag that no row has: a write conditional on it is refused. */
const OVERWRITTEN = `W/"datetime'0001-01-01T00%3A00%3A00Z'"`;

/**
 * Retries requests, and finds out what happened to a commit whose answer was lost. Only after a retry can a
 * refusal be caused by our own first attempt.
 */
export function resilience(
  retry: Retry,
  tables: TablesPort,
  signal: AbortSignal | undefined,
): Layer {
  return async (call, send) => {
    const { method, args } = call;
    let attempts = 0;
    const attempt = (count: number) => {
      attempts = count;
      return send();
    };
    try {
      return await retry(attempt, sendByMs(call), signal);
    } catch (error) {
      if (method !== "commit" || attempts < 2 || !isRefusalInside(error, 404, 409, 412)) {
        throw withName(error, args[0]);
      }
      // The arguments are those of `TablesPort.commit`.
      return resolve(args[0] as string, args[1] as readonly Mutation[], error);
    }
  };

  /**
   * All mutations of a commit share its token and outcome, so the first row that carries the token decides for
   * all.
   */
  async function resolve(
    table: string,
    mutations: readonly Mutation[],
    refusal: unknown,
  ): Promise<(string | undefined)[]> {
    const witness = mutations.find(tokensIn);
    const row = witness ?? mutations[0]!;
    const stored = witness && (await read(table, row));
    const outcome = mutations.every(({ kind }) => kind === "delete")
      ? await outcomeOfDeletes(table, mutations)
      : witness
        ? verdict(witness, stored?.properties)
        : "not ours";
    if (outcome === "not ours") throw refusal;
    if (outcome === "ours") return Promise.all(mutations.map((one) => etagAfter(table, one)));
    throw tableError(
      "ambiguous-outcome",
      `The write to ${printKey(row)} got no answer, and later writes hide whether it took effect.`,
      { key: row.rowKey, token: tokensIn(row) ?? "" },
      { cause: refusal },
    );
  }

  /**
   * Only the ETag of our own write: with that of a later write, the caller would overwrite a change it never
   * saw.
   */
  async function etagAfter(table: string, mutation: Mutation): Promise<string | undefined> {
    const stored = await read(table, mutation);
    return tokensIn(stored) === tokensIn(mutation) ? stored?.etag : OVERWRITTEN;
  }

  /** One row that still exists proves that none was deleted. A missing row may never have existed. */
  async function outcomeOfDeletes(table: string, mutations: readonly Mutation[]) {
    for (const mutation of mutations) if (await read(table, mutation)) return "not ours";
    return "ours";
  }

  function read(table: string, key: EntityKey) {
    const get = () => tables.get(table, keyOf(key), { select: [WRITE_TOKENS] });
    return retry(get, undefined, signal);
  }
}

const CREATED_BY: Readonly<Record<string, string>> = {
  Table: "db.createTables(…)",
  Queue: "worker.createQueues()",
  Container: "db.blobs.createContainer(…)",
};

/** The service does not name the table, queue or container that is missing. */
function withName(error: unknown, name: unknown): unknown {
  if (!(error instanceof PortError)) return error;
  const { status, code, index } = error;
  const what = code.replace("NotFound", "");
  const creator = CREATED_BY[what];
  if (!creator) return error;
  const message = `There is no ${what.toLowerCase()} "${name}".\n  Remedy: create it first: ${creator}.`;
  return new PortError(message, { status, code, index, cause: error });
}

function tokensIn(row: Mutation | StoredEntity | undefined): string | undefined {
  return row && "properties" in row ? tokensOf(row.properties) : undefined;
}
