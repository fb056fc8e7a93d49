import { useSignal } from "@preact/signals";
import { EDM_TYPES, type EdmType } from "@rowhouse/protocol/edm";
import { useEffect, useRef } from "preact/hooks";
import { type BulkTotals, NOTHING_DONE, workInBulk } from "../bulk.ts";
import { ConfirmForm } from "../confirm-form.tsx";
import { propertiesJson } from "../entity-json.ts";
import { Failure } from "../failure.tsx";
import { type Job, jobs, refreshJobs } from "../jobs.ts";
import { askOwn, ServerError, session } from "../session.ts";
import type { TableView } from "../table-view.ts";
import { count, counted } from "../text.ts";
import { FIRST_TEXT, readValue } from "./edm-text.ts";
import { problemOfName } from "./transactions.ts";

/** Between looks at a job. */
const LOOK_MS = 500;

type Phase = "chooses" | "counts" | "asks" | "works" | "ended";

/** Deletes, or gives a property to, everything that the filter finds. Counted first, then confirmed with the table's name. */
export function BulkDialog({ view, close }: { view: TableView; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const abort = useRef(new AbortController());
  const phase = useSignal<Phase>("chooses");
  const isDelete = useSignal(true);
  const name = useSignal("");
  const type = useSignal<EdmType>("Edm.String");
  const text = useSignal("");
  const totals = useSignal<BulkTotals>(NOTHING_DONE);
  const expected = useSignal(0);
  const jobId = useSignal("");
  const failure = useSignal<ServerError | undefined>(undefined);
  useEffect(() => {
    dialog.current?.showModal();
    return () => abort.current.abort();
  }, []);
  const { table } = view;
  const filter = view.ranFilter.value ?? "";
  const read = readValue(type.value, text.value);
  const problem = isDelete.value
    ? undefined
    : (problemOfName(name.value) ?? ("problem" in read ? read.problem : undefined));
  const isBusy = phase.value === "counts" || phase.value === "works";

  const work = async (isDryRun: boolean) => {
    phase.value = isDryRun ? "counts" : "works";
    failure.value = undefined;
    totals.value = NOTHING_DONE;
    abort.current = new AbortController();
    const merge =
      isDelete.value || "problem" in read
        ? undefined
        : propertiesJson(new Map([[name.value, { type: type.value, text: read.text }]]));
    const progress = (next: BulkTotals) => {
      totals.value = next;
    };
    try {
      if (!isDryRun && session.value!.kind === "key") {
        await begin({ table, filter, merge, isDryRun, expected: expected.value });
        return;
      }
      await workInBulk({ table, filter, merge, isDryRun }, progress, abort.current.signal);
      if (isDryRun) expected.value = totals.value.matched;
      phase.value =
        isDryRun && !abort.current.signal.aborted ? "asks" : isDryRun ? "chooses" : "ended";
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      failure.value = error;
      phase.value = isDryRun ? "chooses" : "ended";
    }
  };
  /** A job of the server: from here on the page only looks. */
  const begin = async (wanted: object) => {
    const answer = await askOwn("jobs", { method: "POST", body: JSON.stringify(wanted) });
    jobId.value = ((await answer.json()) as Job).id;
    while (!abort.current.signal.aborted && phase.value === "works") {
      await refreshJobs();
      const job = jobs.value.find(({ id }) => id === jobId.value);
      if (!job) return;
      totals.value = { ...totals.value, changed: job.changed, leftAlone: job.leftAlone };
      if (job.state !== "running") phase.value = "ended";
      if (job.failure) {
        const { status, code, message } = job.failure;
        throw new ServerError(status, code, message);
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  };
  const what = isDelete.value ? "delete" : `set ${name.value} of`;
  const { matched, changed, leftAlone, examples, read: readSoFar } = totals.value;
  return (
    <dialog
      ref={dialog}
      aria-labelledby="bulk-title"
      onClose={() => {
        abort.current.abort();
        if (phase.value === "ended" || jobId.value !== "") {
          view.run(true);
          view.refreshSketch();
        }
        close();
      }}
    >
      <h2 id="bulk-title">
        Change all of {table} of {session.value!.account}
      </h2>
      <p>
        {filter === "" ? "Every entity of the table: no filter was run." : <code>{filter}</code>}
      </p>
      {phase.value === "chooses" && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (!problem) work(true);
          }}
        >
          <fieldset>
            <legend>What to do</legend>
            <label class="inline">
              <input
                type="radio"
                name="bulk-action"
                checked={isDelete.value}
                onChange={() => {
                  isDelete.value = true;
                }}
              />{" "}
              Delete them
            </label>
            <label class="inline">
              <input
                type="radio"
                name="bulk-action"
                checked={!isDelete.value}
                onChange={() => {
                  isDelete.value = false;
                }}
              />{" "}
              Set a property
            </label>
          </fieldset>
          {!isDelete.value && (
            <div class="add-property">
              <input
                aria-label="Property to set"
                placeholder="property"
                value={name.value}
                spellcheck={false}
                onInput={(event) => {
                  name.value = event.currentTarget.value;
                }}
              />
              <select
                aria-label="Type of the property to set"
                value={type.value}
                onChange={(event) => {
                  type.value = event.currentTarget.value as EdmType;
                  if (text.value === "") text.value = FIRST_TEXT[type.value];
                }}
              >
                {EDM_TYPES.map((each) => (
                  <option key={each} value={each}>
                    {each.slice("Edm.".length)}
                  </option>
                ))}
              </select>
              <input
                aria-label="Value to set"
                class="mono"
                placeholder={type.value === "Edm.String" ? "∅ an empty string" : "value"}
                value={text.value}
                spellcheck={false}
                onInput={(event) => {
                  text.value = event.currentTarget.value;
                }}
              />
            </div>
          )}
          {problem && (name.value !== "" || text.value !== "") && (
            <p class="problem small">{problem}</p>
          )}
          {failure.value && <Failure error={failure.value} />}
          <div class="buttons">
            <button type="button" onClick={() => dialog.current?.close()}>
              Not now
            </button>
            <button type="submit" class="primary" disabled={problem !== undefined}>
              Count first
            </button>
          </div>
        </form>
      )}
      {phase.value === "asks" && (
        <>
          <p role="status">
            Would {what} <strong>{counted(matched, "entity", "entities")}</strong>, of{" "}
            {count(readSoFar)} read.
            {view.plan.value && ` Plan: ${view.plan.value.class}.`}
          </p>
          {examples.length > 0 && (
            <ul class="names" aria-label="The first of them" tabIndex={0}>
              {examples.map(([partitionKey, rowKey]) => (
                <li key={`${partitionKey}\n${rowKey}`}>
                  {partitionKey || "∅"} / {rowKey || "∅"}
                </li>
              ))}
              {matched > examples.length && <li class="quiet">…</li>}
            </ul>
          )}
          <p>
            In transactions of up to 100, partition by partition, on the server; each on the
            condition that nobody changes the entity in between. This cannot be undone.
          </p>
          <ConfirmForm
            word={table}
            verb={`${isDelete.value ? "Delete" : "Change"} ${count(matched)}`}
            isOff={matched === 0}
            work={() => work(false)}
            backWord="Back"
            back={() => {
              phase.value = "chooses";
            }}
          />
        </>
      )}
      {isBusy && (
        <>
          <p role="status">
            {phase.value === "counts"
              ? `Counting… ${count(matched)} of ${count(readSoFar)} read`
              : `${count(changed)} of ${count(expected.value)} done`}
          </p>
          <div class="buttons">
            {jobId.value === "" ? (
              <button type="button" onClick={() => abort.current.abort()}>
                Stop
              </button>
            ) : (
              <button type="button" onClick={() => dialog.current?.close()}>
                Close, it goes on
              </button>
            )}
          </div>
        </>
      )}
      {phase.value === "ended" && (
        <>
          <p role="status">
            {isDelete.value ? "Deleted" : "Changed"} {counted(changed, "entity", "entities")}.
            {leftAlone > 0 &&
              ` ${count(leftAlone)} left alone: somebody else changed them in the meantime.`}
            {abort.current.signal.aborted &&
              " Stopped: run it again to go on, it finds what is left."}
          </p>
          {failure.value && <Failure error={failure.value} />}
          <div class="buttons">
            <button type="button" class="primary" onClick={() => dialog.current?.close()}>
              Close
            </button>
          </div>
        </>
      )}
    </dialog>
  );
}
