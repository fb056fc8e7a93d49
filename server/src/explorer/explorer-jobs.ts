import { jsonAnswer, type PageRequest, textAnswer } from "../http/pages.ts";
import type { WireResponse } from "../wire/operation.ts";
import { readBulk } from "./bulk.ts";
import { type BulkJobs, JOBS_KEPT_MAX, JOBS_RUNNING_MAX, type JobOwner } from "./bulk-jobs.ts";
import { refusal } from "./gateway.ts";

/** What is sent to change in bulk, at most: an entity as JSON, and as much again where quotes are escaped. */
export const BULK_BYTES_MAX = 4 * 1024 * 1024;

/**
 * Answers `api/v1/jobs` and below, for the owner of an account:
 *
 *     GET     jobs                                       the account's jobs, the newest first
 *     POST    jobs      {table, filter, merge, expected} begins one
 *     POST    jobs/ID   {"do": "pause" | "resume"}
 *     DELETE  jobs/ID                                    ends it and forgets it
 */
export async function answerJobs(
  { raw }: PageRequest,
  id: string,
  { jobs, owner }: { jobs: BulkJobs; owner: JobOwner },
): Promise<WireResponse> {
  if (raw.verb === "GET" && id === "")
    return jsonAnswer(200, { jobs: await jobs.list(owner.account) });
  if (raw.verb === "DELETE" && id !== "") {
    await jobs.remove(owner.account, id);
    return { status: 204, headers: [], body: "" };
  }
  if (raw.verb !== "POST")
    return textAnswer(405, "Jobs answer GET, POST and DELETE.\n", ["Allow", "GET, POST, DELETE"]);
  const body = await raw.body.read(BULK_BYTES_MAX);
  const text = Buffer.from(body ?? "").toString("utf8");
  return id === "" ? begin(text, jobs, owner) : act(text, id, jobs, owner);
}

async function begin(text: string, jobs: BulkJobs, owner: JobOwner): Promise<WireResponse> {
  const wanted = readBulk(text);
  const { expected } = wanted ? (JSON.parse(text) as { expected?: unknown }) : {};
  if (!wanted || wanted.isDryRun || !Number.isSafeInteger(expected))
    return refusal(
      400,
      "InvalidInput",
      "Send a table, a filter, isDryRun: false, expected, how many entities a dry run found, and to change entities, not to delete them, merge: an entity as JSON.",
    );
  const { table, filter, merge } = wanted;
  const begun = await jobs.begin(owner, { table, filter, merge, expected: Number(expected) });
  return begun
    ? jsonAnswer(201, begun)
    : refusal(
        409,
        "TooManyJobs",
        `An account has at most ${JOBS_RUNNING_MAX} changes in bulk that run, and ${JOBS_KEPT_MAX} with those that wait. Wait for one, or remove one.`,
      );
}

async function act(
  text: string,
  id: string,
  jobs: BulkJobs,
  owner: JobOwner,
): Promise<WireResponse> {
  const [, verb] = /^\s*\{\s*"do"\s*:\s*"(pause|resume)"\s*\}\s*$/.exec(text) ?? [];
  if (verb === undefined)
    return refusal(400, "InvalidInput", 'Send {"do": "pause"} or {"do": "resume"}.');
  const job = verb === "pause" ? await jobs.pause(owner.account, id) : await jobs.resume(owner, id);
  return job ? jsonAnswer(200, job) : refusal(404, "JobNotFound", "There is no such job any more.");
}
