import { signal } from "@preact/signals";
import { askOwn, ServerError, session } from "./session.ts";

/** A change in bulk that goes on without the page: see `server/src/explorer/bulk-jobs.ts`. */
export interface Job {
  readonly id: string;
  readonly state: "running" | "paused" | "stopped" | "failed" | "done";
  readonly table: string;
  readonly filter: string;
  /** What it sets; undefined: it deletes. */
  readonly sets?: readonly string[];
  readonly expected: number;
  readonly changed: number;
  readonly leftAlone: number;
  readonly cutOff: number;
  readonly failure?: { readonly status: number; readonly code: string; readonly message: string };
}

/** Of the account, the newest first, by whomever they were begun. */
export const jobs = signal<readonly Job[]>([]);

/** Whoever has a signature has none. A server that does not answer is told by what the screen asks. */
export async function refreshJobs(): Promise<void> {
  if (session.value?.kind !== "key") return;
  try {
    const answer = await askOwn("jobs", {});
    jobs.value = ((await answer.json()) as { jobs: readonly Job[] }).jobs;
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
  }
}
