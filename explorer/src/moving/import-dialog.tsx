import { useSignal } from "@preact/signals";
import { EDM_TYPES, type EdmType } from "@rowhouse/protocol/edm";
import type { EntityFormat, KeyColumns, KeyName } from "@rowhouse/protocol/entity-files";
import type { ImportState } from "@rowhouse/protocol/entity-import";
import { WRITE_MODES, type WriteMode } from "@rowhouse/protocol/entity-writes";
import { useEffect, useRef } from "preact/hooks";
import { download } from "../download.ts";
import { Failure } from "../failure.tsx";
import { fileToImport } from "../file-to-import.ts";
import { ServerError, session } from "../session.ts";
import type { TableView } from "../table-view.ts";
import { bytes, count, counted, percent } from "../text.ts";
import { chunksOf } from "./chunks.ts";
import { type Begun, BegunImports, causesOf, importFile, type LineReject } from "./import-file.ts";
import { type Preview, previewOf } from "./preview.ts";

const MODE_WORDS: Readonly<Record<WriteMode, string>> = {
  replace: "replace it",
  merge: "merge: keep its other properties",
  insert: "refuse the new one",
};

interface Chosen {
  readonly file: File;
  readonly format: EntityFormat;
  readonly preview: Preview;
  readonly begun: Begun | undefined;
}

type Phase = "chooses" | "tries" | "tried" | "writes" | "stopped" | "ended";

/** Writes the entities of a file into the table: looked at first, tried out if wanted, and continued where it broke off. */
export function ImportDialog({ view, close }: { view: TableView; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const abort = useRef<AbortController | undefined>(undefined);
  const rejects = useRef<LineReject[]>([]);
  const hasWritten = useRef(false);
  const chosen = useSignal<Chosen | undefined>(undefined);
  const unreadable = useSignal("");
  const types = useSignal<ReadonlyMap<string, EdmType>>(new Map());
  const keys = useSignal<KeyColumns>({});
  const mode = useSignal<WriteMode>("replace");
  const goesOn = useSignal(false);
  const phase = useSignal<Phase>("chooses");
  const state = useSignal<ImportState>({ line: 0, written: 0 });
  const share = useSignal(0);
  const failure = useSignal<ServerError | undefined>(undefined);
  useEffect(() => {
    dialog.current?.showModal();
    choose(fileToImport.peek());
    fileToImport.value = undefined;
    return () => abort.current?.abort();
  }, []);
  const { table } = view;
  const isBusy = phase.value === "tries" || phase.value === "writes";

  const choose = async (file: File | undefined) => {
    chosen.value = undefined;
    unreadable.value = "";
    phase.value = "chooses";
    failure.value = undefined;
    if (!file) return;
    const format = file.name.toLowerCase().endsWith(".csv") ? "csv" : "jsonl";
    try {
      const preview = await previewOf(chunksOf(file), { format, name: file.name });
      const begun = new BegunImports(table, file).read();
      keys.value = {};
      types.value = new Map(begun?.types ?? preview.guesses ?? []);
      if (begun) mode.value = begun.mode;
      goesOn.value = begun !== undefined;
      chosen.value = { file, format, preview, begun };
      for (const key of preview.lacks) {
        const column = begun?.keys?.[key];
        if (column !== undefined) await chooseKey(key, column);
      }
    } catch (error) {
      unreadable.value = error instanceof Error ? error.message : String(error);
    }
  };
  /** Looks at the file again, with its keys, when all of them are chosen. */
  const chooseKey = async (key: KeyName, column: string) => {
    keys.value = { ...keys.value, [key]: column };
    if (!chosen.value || !isKeyed(chosen.value, keys.value)) return;
    const { file, format } = chosen.value;
    try {
      const options = { format, name: file.name, keys: keys.value };
      const preview = await previewOf(chunksOf(file), options);
      if (chosen.value?.file !== file) return;
      chosen.value = { ...chosen.value, preview };
      phase.value = "chooses";
    } catch (error) {
      unreadable.value = error instanceof Error ? error.message : String(error);
    }
  };

  /** @param from where to begin; the file's first record, if there is none */
  const work = async (isDryRun: boolean, from: ImportState = { line: 0, written: 0 }) => {
    const { file, format, preview } = chosen.value!;
    const kept = new BegunImports(table, file);
    abort.current = new AbortController();
    const { signal } = abort.current;
    // What is behind the state is read again.
    rejects.current = rejects.current.filter(({ line }) => line <= from.line);
    state.value = { ...from };
    share.value = 0;
    failure.value = undefined;
    phase.value = isDryRun ? "tries" : "writes";
    hasWritten.current ||= !isDryRun;
    try {
      await importFile(
        {
          ...{ table, file, format, mode: mode.value, isDryRun, signal },
          types: preview.guesses && types.value,
          keys: keys.value,
          onReject: (reject) => rejects.current.push(reject),
          moved(next, done) {
            state.value = next;
            share.value = done;
            if (isDryRun) return;
            const how = { mode: mode.value, types: [...types.value], keys: keys.value };
            kept.write({ ...next, ...how });
          },
        },
        { ...from },
      );
      if (!isDryRun) kept.remove();
      phase.value = isDryRun ? "tried" : "ended";
    } catch (error) {
      const isStop = error instanceof DOMException && error.name === "AbortError";
      phase.value = isDryRun ? "chooses" : "stopped";
      if (isStop) return;
      const shown = error instanceof ServerError ? error : undefined;
      failure.value = shown ?? new ServerError(0, "FileUnreadable", String(error));
    }
  };
  const begin = () => {
    const begun = goesOn.value ? chosen.value!.begun : undefined;
    return work(false, begun && { line: begun.line, written: begun.written });
  };
  const isEnded = phase.value === "ended";
  const isOff = isBusy || !chosen.value || !isKeyed(chosen.value, keys.value);
  return (
    <dialog
      ref={dialog}
      class="wide"
      aria-labelledby="import-title"
      onClose={() => {
        if (hasWritten.current) {
          view.run(true);
          view.refreshSketch();
        }
        close();
      }}
    >
      <h2 id="import-title">
        Import into {table} of {session.value!.account}
      </h2>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          begin();
        }}
      >
        <label>
          A file of JSON lines, or of CSV
          <input
            type="file"
            accept=".jsonl,.csv,.json,.txt"
            disabled={isBusy}
            onChange={(event) => choose(event.currentTarget.files?.[0])}
          />
        </label>
        {unreadable.value && (
          <p class="problem" role="alert">
            {unreadable.value}
          </p>
        )}
        {chosen.value && (phase.value === "chooses" || phase.value === "tried") && (
          <>
            <Keys preview={chosen.value.preview} keys={keys.value} choose={chooseKey} />
            <Columns
              preview={chosen.value.preview}
              types={types}
              isKeyed={isKeyed(chosen.value, keys.value)}
            />
            <label>
              An entity that exists
              <select
                value={mode.value}
                onChange={(event) => {
                  mode.value = event.currentTarget.value as WriteMode;
                }}
              >
                {WRITE_MODES.map((each) => (
                  <option key={each} value={each}>
                    {MODE_WORDS[each]}
                  </option>
                ))}
              </select>
            </label>
            {chosen.value.begun && (
              <label class="inline">
                <input
                  type="checkbox"
                  checked={goesOn.value}
                  onChange={(event) => {
                    goesOn.value = event.currentTarget.checked;
                  }}
                />
                go on after line {count(chosen.value.begun.line)}, where it broke off
              </label>
            )}
          </>
        )}
        {isBusy && (
          <progress value={share.value} max={1} aria-label="How much of the file was read" />
        )}
        <p role="status">
          {wordsOf(phase.value, state.value, rejects.current.length, share.value)}
        </p>
        {failure.value && <Failure error={failure.value} />}
        {!isBusy && phase.value !== "chooses" && (
          <Refused rejects={rejects.current} table={table} />
        )}
        <div class="buttons">
          {isBusy ? (
            <button type="button" onClick={() => abort.current?.abort()}>
              Stop
            </button>
          ) : (
            <button type="button" onClick={() => dialog.current?.close()}>
              Close
            </button>
          )}
          {phase.value === "stopped" && (
            <button type="button" class="primary" onClick={() => work(false, state.value)}>
              Go on
            </button>
          )}
          {chosen.value && phase.value !== "stopped" && !isEnded && (
            <>
              <button type="button" disabled={isOff} onClick={() => work(true)}>
                Try it out
              </button>
              <button type="submit" class="primary" disabled={isOff}>
                Import {bytes(chosen.value.file.size)}
              </button>
            </>
          )}
        </div>
      </form>
    </dialog>
  );
}

function wordsOf(phase: Phase, { line, written }: ImportState, rejected: number, share: number) {
  const entities = counted(written, "entity", "entities");
  const refused = rejected === 0 ? "none refused" : `${count(rejected)} refused`;
  switch (phase) {
    case "chooses":
      return "";
    case "tries":
      return `Trying: ${count(written)} are good, ${refused} (${percent(share)})`;
    case "tried":
      return `${entities} would be written, ${refused}. Nothing was written.`;
    case "writes":
      return `${entities} written, ${refused} (${percent(share)})`;
    case "stopped":
      return `Stopped after line ${count(line)}: ${entities} written, ${refused}.`;
    case "ended":
      return `${entities} written, ${refused}.`;
  }
}

function isKeyed({ preview }: Chosen, keys: KeyColumns): boolean {
  return preview.lacks.every((key) => keys[key] !== undefined);
}

/** Asks what becomes the keys of a file that has none. */
function Keys({
  preview: { lacks, columns, faults, records },
  keys,
  choose,
}: {
  preview: Preview;
  keys: KeyColumns;
  choose: (key: KeyName, column: string) => void;
}) {
  if (lacks.length === 0) return null;
  return (
    <fieldset>
      <legend>
        The file has no {lacks.join(" and no ")}: what becomes it stays a property, too
      </legend>
      {lacks.map((key) => (
        <label key={key}>
          {key}
          <select
            required
            value={keys[key] ?? ""}
            onChange={(event) => choose(key, event.currentTarget.value)}
          >
            <option value="" disabled>
              choose…
            </option>
            {columns.map(({ name }) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
      ))}
      {faults.length > 0 && (
        <p class="problem" role="alert">
          {count(faults.length)} of the first {counted(records, "record")} would be refused:{" "}
          {faults[0]}
        </p>
      )}
    </fieldset>
  );
}

function Columns({
  preview,
  types,
  isKeyed: hasKeys,
}: {
  preview: Preview;
  types: { value: ReadonlyMap<string, EdmType> };
  isKeyed: boolean;
}) {
  const { columns, first, records, guesses } = preview;
  const keys = first.map(({ partitionKey, rowKey }) => `${partitionKey || "∅"} / ${rowKey || "∅"}`);
  return (
    <>
      <p class="small">
        {first.length === 0 && "None of the first records can be read."}
        {first.length > 0 && hasKeys && `First: ${keys.join(", ")}.`}
        {guesses &&
          ` The file has no types: the first ${counted(records, "record")} look like these, which you can change.`}
      </p>
      {columns.length > 0 && (
        <section class="scrolls" tabIndex={0} aria-label="Properties in the file">
          <table class="previewed">
            <thead>
              <tr>
                <th scope="col">Property</th>
                <th scope="col">type</th>
                <th scope="col">in</th>
                <th scope="col">for example</th>
              </tr>
            </thead>
            <tbody>
              {columns.map(({ name, types: seen, count: having, example }) => (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <td>
                    {guesses ? (
                      <select
                        aria-label={`Type of ${name}`}
                        value={types.value.get(name)}
                        onChange={(event) => {
                          const type = EDM_TYPES.find(
                            (each) => each === event.currentTarget.value,
                          )!;
                          types.value = new Map(types.value).set(name, type);
                        }}
                      >
                        {EDM_TYPES.map((each) => (
                          <option key={each} value={each}>
                            {nameOf(each)}
                          </option>
                        ))}
                      </select>
                    ) : (
                      seen.map(nameOf).join(", ")
                    )}
                  </td>
                  <td>
                    {count(having)} of {count(records)}
                  </td>
                  <td class="mono">{example.slice(0, 60)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </>
  );
}

function nameOf(type: EdmType): string {
  return type.slice("Edm.".length);
}

const CAUSES_SHOWN = 10;

function Refused({ rejects, table }: { rejects: readonly LineReject[]; table: string }) {
  if (rejects.length === 0) return null;
  const causes = causesOf(rejects);
  return (
    <>
      <ul aria-label="Why some were refused">
        {causes.slice(0, CAUSES_SHOWN).map(({ first, count: many }) => (
          <li key={first.where}>
            {first.where}: {first.reason}
            {many > 1 && <span class="quiet"> and {count(many - 1)} more like it</span>}
          </li>
        ))}
        {causes.length > CAUSES_SHOWN && <li class="quiet">…</li>}
      </ul>
      <button
        type="button"
        onClick={() => {
          const lines = rejects.map(({ reject }) => `${JSON.stringify(reject)}\n`);
          download(new Blob(lines), `${table}.refused.jsonl`);
        }}
      >
        Download what was refused
      </button>
    </>
  );
}
