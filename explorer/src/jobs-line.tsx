import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Failure } from "./failure.tsx";
import { type Job, jobs, refreshJobs } from "./jobs.ts";
import { addressOf } from "./route-text.ts";
import { askOwn, ServerError, session } from "./session.ts";
import { count, counted } from "./text.ts";

const PERIOD_MS = 1000;

/** Changes in bulk of this account: how far each is, and what to do with it. */
export function JobsLine() {
  const failure = useSignal<ServerError | undefined>(undefined);
  const isMoving = jobs.value.some(({ state }) => state === "running");
  useEffect(() => {
    if (!isMoving) return;
    const timer = setInterval(refreshJobs, PERIOD_MS);
    return () => clearInterval(timer);
  }, [isMoving]);
  const ask = async (init: RequestInit, { id }: Job) => {
    failure.value = undefined;
    try {
      await askOwn(`jobs/${id}`, init);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      failure.value = error;
    }
    await refreshJobs();
  };
  const say = (verb: string, job: Job) =>
    ask({ method: "POST", body: JSON.stringify({ do: verb }) }, job);
  return (
    <section class="jobs" aria-label="Changes in bulk">
      {failure.value && <Failure error={failure.value} />}
      <ul>
        {jobs.value.map((job) => {
          const { id, state, table, filter } = job;
          const name = `of ${table}`;
          return (
            <li key={id}>
              <a href={addressOf({ table, filter })}>{table}</a>{" "}
              {filter === "" ? "every entity" : <code>{filter}</code>} {wordsOf(job)}
              <span class="space" />
              {session.value?.isReadOnly ? null : (
                <>
                  {state === "running" && (
                    <button
                      type="button"
                      aria-label={`Pause the change ${name}`}
                      onClick={() => say("pause", job)}
                    >
                      Pause
                    </button>
                  )}
                  {(state === "paused" || state === "stopped" || state === "failed") && (
                    <button
                      type="button"
                      aria-label={`Go on with the change ${name}`}
                      onClick={() => say("resume", job)}
                    >
                      Go on
                    </button>
                  )}
                  {state !== "running" && (
                    <button
                      type="button"
                      aria-label={`Remove the change ${name} from this list`}
                      onClick={() => ask({ method: "DELETE" }, job)}
                    >
                      Remove
                    </button>
                  )}
                </>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** What is done of it, and why it does not go on. */
function wordsOf({ state, sets, changed, expected, leftAlone, cutOff, failure }: Job): string {
  const what = sets ? `set ${sets.join(", ")}` : "deleted";
  const done =
    state === "done"
      ? `${what}: ${counted(changed, "entity", "entities")}, done.`
      : `${what}: ${count(changed)} of ${count(expected)}.`;
  const why = {
    running: "",
    done: "",
    paused: " Paused.",
    stopped: " Stopped: the server that worked on it ended.",
    failed: ` Failed: ${failure?.status} ${failure?.code}: ${failure?.message}`,
  }[state];
  const others =
    leftAlone > 0 ? ` ${count(leftAlone)} left alone: somebody else changed them meanwhile.` : "";
  const about = cutOff > 0 ? " Counts are off by up to a second's work for each stop." : "";
  return `${done}${why}${others}${about}`;
}
