import type { Refusal } from "../recording.ts";
import { counted, type Finding, getOrMake, groupBy, type Observed, type Rule } from "./rule.ts";

/** A client that repeats a request this soon has not backed off. */
const SOON_MS = 100;
/** After this time a repeated request is a new attempt, not a retry. */
const SAME_ATTEMPT_MS = 10_000;
const REPEATS_MIN = 3;
/** Not 404, which clients poll for, nor 409 and 412, after which a client reads and tries again. */
const HOPELESS = new Set([400, 401, 403, 405, 411, 413, 415, 501]);

/** A request, identified by its first refusal. */
interface Repeated {
  readonly refusal: Refusal;
  at: number;
  times: number;
}

/** Finds requests that are repeated unchanged: immediately after a 5xx, or although they cannot succeed. */
export class Retries implements Rule {
  readonly #requests = new Map<string, Repeated>();

  refused(refusal: Refusal): void {
    const { at, client, clientRequestId, code, path, status, verb } = refusal;
    const isHopeless = HOPELESS.has(status);
    // What cannot succeed is no better under another id; a busy server may refuse different inserts in a row.
    const isKnown = isHopeless || isOneEntity(refusal);
    if (!isKnown && clientRequestId === undefined) return;
    if (!isHopeless && status < 500) return;
    const id = isKnown ? "" : clientRequestId;
    const key = [client, verb, path, code, id].join(" ");
    // For a first refusal: nothing came before it.
    const before = { refusal, at: Number.NEGATIVE_INFINITY, times: 0 };
    const request = getOrMake(this.#requests, key, () => before);
    const within = isHopeless ? SAME_ATTEMPT_MS : SOON_MS;
    if (at - request.at <= within) request.times++;
    request.at = at;
  }

  findings({ tables: names }: Observed): Finding[] {
    const repeated = [...this.#requests.values()].filter(({ times }) => times >= REPEATS_MIN);
    const tables = groupBy(repeated, ({ refusal }) => {
      const asked = tableOfPath(refusal);
      return names.find(asked) ?? asked;
    });
    return [...tables].map(([table, all]) => ({
      ...{ rule: "retries", table, subject: "" },
      title: `${counted(all.length, "request was", "requests were")} retried without backing off, or although ${all.length === 1 ? "it" : "they"} cannot succeed`,
      evidence: all
        .slice(0, 3)
        .map(
          ({ refusal: { code, path, status, verb }, times }) =>
            `${verb} ${path.slice(0, 200)}: ${status} ${code}, sent again ${counted(times, "time")}`,
        ),
      cost: "Each retry is refused again, and keeps a busy partition busy.",
      remedy: {
        pattern: "exponential retry",
        advice:
          "Retry only 500 and 503, with exponential backoff and jitter (the retry policy of the client library); report other errors to the user.",
        layout: [],
      },
    }));
  }
}

/**
 * Whether the path identifies the request. For inserts, batches and lists it does not: two of them are the
 * same request only if they carry the same client request id, as retries of client libraries do.
 */
function isOneEntity({ path }: Refusal): boolean {
  return /\(.+\)$/.test(path);
}

/** `account/table` for a path such as `/account/Table(...)`. */
function tableOfPath({ account, path }: Refusal): string {
  const own = path.startsWith(`/${account}/`) ? path.slice(account.length + 1) : path;
  return `${account}/${/^\/([^(/?]*)/.exec(own)?.[1] ?? ""}`;
}
