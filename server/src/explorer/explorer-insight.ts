import { jsonAnswer, pageAnswer } from "../http/pages.ts";
import type { WireResponse } from "../wire/operation.ts";
import { refusal } from "./gateway.ts";
import type { Session } from "./session-token.ts";

/** What the server watched of its accounts. */
export interface ExplorerInsight {
  /** Begins to watch, if that has not begun. */
  start(): Promise<unknown>;
  /** Load by partition and time, of each process, and since when it is counted. */
  heat(account: string): Promise<unknown>;
  /** An `ActivityReport`. */
  activity(account: string): Promise<unknown>;
  /** The recent traffic as recordings, each with its own first line: see `recording.ts`. */
  recordings(account: string): Promise<readonly string[]>;
}

/** Answers `api/v1/insight/NAME`, for the owner of an account. */
export async function answerInsight(
  name: string,
  { account, sas }: Session,
  insight: ExplorerInsight | undefined,
): Promise<WireResponse> {
  if (sas !== undefined)
    return refusal(
      403,
      "InsightNeedsKey",
      "A signature does not open this: it shows keys and filters of everybody's requests to the account. Log in with the account's key.",
    );
  if (!insight) return refusal(404, "InsightIsOff", "This server does not watch its traffic.");
  switch (name) {
    case "heat":
      return jsonAnswer(200, await insight.heat(account.name));
    case "activity":
      return jsonAnswer(200, await insight.activity(account.name));
    case "recordings":
      return pageAnswer(
        200,
        "text/plain; charset=utf-8",
        (await insight.recordings(account.name)).join(""),
      );
    default:
      return refusal(404, "ResourceNotFound", "There is no insight of this name.");
  }
}
