import { useSignal } from "@preact/signals";
import { ENTITY_FORMATS, type EntityFormat } from "@rowhouse/protocol/entity-files";
import { useEffect, useRef } from "preact/hooks";
import { download } from "../download.ts";
import { Failure } from "../failure.tsx";
import { ServerError, session } from "../session.ts";
import { idOf } from "../staged.ts";
import type { TableView } from "../table-view.ts";
import { bytes, count, counted } from "../text.ts";
import { makeFile, readAll, readWhole } from "./export-file.ts";

const FORMAT_WORDS: Readonly<Record<EntityFormat, string>> = {
  jsonl: "JSON lines: an entity a line, as the service writes it",
  csv: "typed CSV: a column and its type for each property",
};

type Scope = "chosen" | "shown" | "all";

/** Keeps entities as a file: those that are chosen, those that are shown, or all that the filter finds. */
export function ExportDialog({ view, close }: { view: TableView; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const abort = useRef<AbortController | undefined>(undefined);
  const { table, chosen, columns } = view;
  const filter = view.ranFilter.value ?? "";
  const shown = columns.arrange(view.rows.value);
  const some = shown.filter((row) => chosen.value.has(idOf(row)));
  const scope = useSignal<Scope>(some.length > 0 ? "chosen" : "all");
  const format = useSignal<EntityFormat>("jsonl");
  const isBusy = useSignal(false);
  const totals = useSignal({ read: 0, written: 0 });
  const said = useSignal("");
  const failure = useSignal<ServerError | undefined>(undefined);
  useEffect(() => {
    dialog.current?.showModal();
    return () => abort.current?.abort();
  }, []);

  const start = async (event: Event) => {
    event.preventDefault();
    abort.current = new AbortController();
    const { signal } = abort.current;
    const rows = scope.value === "chosen" ? some : shown;
    const pages =
      scope.value === "all" ? readAll(table, filter, signal) : readWhole(table, rows, signal);
    isBusy.value = true;
    failure.value = undefined;
    said.value = "";
    totals.value = { read: 0, written: 0 };
    try {
      const file = await makeFile(pages, { table, format: format.value }, (page) => {
        const { read, written } = totals.value;
        totals.value = { read: read + page.read, written: written + page.rows.length };
      });
      if (signal.aborted) return;
      const name = `${table}.${format.value}`;
      download(file, name);
      said.value = `${name}: ${counted(totals.value.written, "entity", "entities")}, ${bytes(file.size)}.`;
      const missing = scope.value === "all" ? 0 : rows.length - totals.value.written;
      if (missing > 0) said.value += ` ${count(missing)} left out: deleted in the meantime.`;
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") said.value = "Stopped.";
      else if (error instanceof ServerError) failure.value = error;
      else throw error;
    } finally {
      isBusy.value = false;
    }
  };
  const choice = (value: Scope, words: string) => (
    <label class="inline">
      <input
        type="radio"
        name="export-scope"
        checked={scope.value === value}
        onChange={() => {
          scope.value = value;
        }}
      />
      {words}
    </label>
  );
  return (
    <dialog ref={dialog} aria-labelledby="export-title" onClose={close}>
      <h2 id="export-title">
        Export {table} of {session.value!.account}
      </h2>
      <form onSubmit={start}>
        <fieldset class="column">
          <legend>What</legend>
          {some.length > 0 &&
            choice("chosen", `the ${counted(some.length, "row that is", "rows that are")} chosen`)}
          {shown.length > 0 &&
            choice("shown", `the ${counted(shown.length, "row that is", "rows that are")} shown`)}
          {choice(
            "all",
            filter === "" ? "the whole table" : `all that the filter finds: ${filter}`,
          )}
        </fieldset>
        {scope.value === "all" && view.plan.value && (
          <p class="quiet small">
            Reads by a {view.plan.value.class}
            {view.sketch.value &&
              filter === "" &&
              ` of ${count(view.sketch.value.entities)} entities`}
            , from the server that is running: what is written meanwhile may be in it or not.
          </p>
        )}
        {scope.value !== "all" && columns.projection.length > 0 && (
          <p class="quiet small">Only the columns that were asked for.</p>
        )}
        <fieldset class="column">
          <legend>As</legend>
          {ENTITY_FORMATS.map((each) => (
            <label key={each} class="inline">
              <input
                type="radio"
                name="export-format"
                checked={format.value === each}
                onChange={() => {
                  format.value = each;
                }}
              />
              {FORMAT_WORDS[each]}
            </label>
          ))}
        </fieldset>
        <p role="status">
          {isBusy.value
            ? `${count(totals.value.written)} written, ${count(totals.value.read)} read…`
            : said.value ||
              "Both keep every type to the last digit. What is only staged is not in it."}
        </p>
        {failure.value && <Failure error={failure.value} />}
        <div class="buttons">
          {isBusy.value ? (
            <button type="button" onClick={() => abort.current?.abort()}>
              Stop
            </button>
          ) : (
            <button type="button" onClick={() => dialog.current?.close()}>
              Close
            </button>
          )}
          <button type="submit" class="primary" disabled={isBusy.value}>
            Export
          </button>
        </div>
      </form>
    </dialog>
  );
}
