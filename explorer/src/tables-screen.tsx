import { type Signal, signal, useSignal } from "@preact/signals";
import type { TableSketch } from "@rowhouse/server/query/table-sketch";
import type { TargetedEvent } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { workInBulk } from "./bulk.ts";
import { ConfirmForm } from "./confirm-form.tsx";
import { Failure } from "./failure.tsx";
import { fileToImport, tableNameOf } from "./file-to-import.ts";
import { addressOf } from "./route-text.ts";
import { ServerError, session } from "./session.ts";
import { createTable, deleteTable, readSketch } from "./table-facts.ts";
import type { TableNames } from "./table-names.ts";
import type { TableLoad } from "./tables-load.ts";
import { age, bytes, count, percent } from "./text.ts";

/** Tables whose entities are counted without being asked: each is a walk over the table. */
const COUNTED_MAX = 50;

type Fact = TableSketch | ServerError | "counting";

/** Counts the entities of tables, one table after the other. */
class TableCounts {
  readonly facts: Signal<ReadonlyMap<string, Fact>> = signal(new Map());
  #isClosed = false;

  async count(names: readonly string[]): Promise<void> {
    for (const name of names.filter((each) => !this.facts.value.has(each))) {
      if (this.#isClosed) return;
      this.#set(name, "counting");
      try {
        this.#set(name, await readSketch(name));
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        this.#set(name, error);
      }
    }
  }

  /** So that they are counted again. */
  forget(): void {
    this.facts.value = new Map();
  }

  close(): void {
    this.#isClosed = true;
  }

  #set(name: string, fact: Fact): void {
    this.facts.value = new Map(this.facts.value).set(name, fact);
  }
}

const LOADS_MS = 10_000;

/** What the server watches, read again while it is seen; undefined for whom it tells nothing. */
function useLoads(names: readonly string[] | undefined) {
  const loads = useSignal<ReadonlyMap<string, TableLoad> | undefined>(undefined);
  const findings = useSignal<ReadonlyMap<string, number> | undefined>(undefined);
  const isKnown = names !== undefined;
  useEffect(() => {
    if (!isKnown || session.value?.kind !== "key") return;
    let isLeft = false;
    const read = async (isFirst: boolean) => {
      const loaded = await import("./tables-load.ts").catch(() => undefined);
      if (!loaded) return;
      const next = await loaded.readLoads(Date.now());
      if (!isLeft) loads.value = next;
      const found = isFirst ? await loaded.readFindings() : findings.value;
      if (!isLeft) findings.value = found;
    };
    const attempt = (isFirst: boolean) => {
      if (isFirst || (!document.hidden && loads.value)) read(isFirst).catch(quietly);
    };
    attempt(true);
    const timer = setInterval(() => attempt(false), LOADS_MS);
    return () => {
      isLeft = true;
      clearInterval(timer);
    };
  }, [isKnown, loads, findings]);
  return { loads: loads.value, findings: findings.value };
}

/** A refusal is shown by the screens that are about load and findings; this one does without. */
function quietly(error: unknown): void {
  if (!(error instanceof ServerError)) throw error;
}

export function TablesScreen({ tables }: { tables: TableNames }) {
  const counts = useMemo(() => new TableCounts(), []);
  const chosen = useSignal<ReadonlySet<string>>(new Set());
  const asks = useSignal<"delete" | "truncate" | undefined>(undefined);
  const names = tables.names.value;
  const { loads, findings } = useLoads(names);
  useEffect(() => () => counts.close(), [counts]);
  useEffect(() => {
    if (names) counts.count(names.slice(0, COUNTED_MAX));
  }, [names, counts]);
  const { isReadOnly, kind } = session.value!;
  const failure = tables.failure.value;
  const refresh = () => {
    counts.forget();
    tables.refresh();
  };
  const choose = (name: string) => {
    const next = new Set(chosen.value);
    if (!next.delete(name)) next.add(name);
    chosen.value = next;
  };
  return (
    <div class="page">
      <div class="page-head">
        <h1>Tables</h1>
        <span class="quiet">{names && `${count(names.length)} in ${session.value!.account}`}</span>
        <span class="space" />
        {chosen.value.size > 0 && (
          <>
            <button
              type="button"
              class="danger"
              onClick={() => {
                asks.value = "truncate";
              }}
            >
              Empty {chosen.value.size}…
            </button>
            <button
              type="button"
              class="danger"
              onClick={() => {
                asks.value = "delete";
              }}
            >
              Delete {chosen.value.size}…
            </button>
          </>
        )}
        <button type="button" onClick={refresh}>
          Refresh
        </button>
      </div>
      {failure && <Failure error={failure} again={() => tables.refresh()} />}
      {!names && !failure && <p class="quiet">Reading the names of the tables…</p>}
      {names?.length === 0 && <Empty mayCreate={!isReadOnly && kind === "key"} />}
      {names && names.length > 0 && (
        <div class="wide">
          <table class="list">
            <thead>
              <tr>
                {!isReadOnly && (
                  <th scope="col" class="check">
                    <span class="hidden">Choose</span>
                  </th>
                )}
                <th scope="col">Name</th>
                <th scope="col" class="number">
                  Entities
                </th>
                <th scope="col" class="number">
                  Partitions
                </th>
                <th scope="col" class="number">
                  Bytes
                </th>
                <th scope="col">Largest partition</th>
                {loads && (
                  <>
                    <th scope="col" title="Entities read and written a second, in the last minute">
                      Now
                    </th>
                    <th
                      scope="col"
                      class="number"
                      title="Queries across partitions since midnight, as far as the server watched, and the entities that they read"
                    >
                      Scans today
                    </th>
                    <th scope="col" class="number">
                      Findings
                    </th>
                  </>
                )}
                <th scope="col">Counted</th>
              </tr>
            </thead>
            <tbody>
              {names.map((name) => (
                <tr key={name}>
                  {!isReadOnly && (
                    <td class="check">
                      <input
                        type="checkbox"
                        aria-label={`Choose ${name}`}
                        checked={chosen.value.has(name)}
                        onChange={() => choose(name)}
                      />
                    </td>
                  )}
                  <th scope="row">
                    <a href={addressOf({ table: name })}>{name}</a>
                  </th>
                  <Counts
                    fact={counts.facts.value.get(name)}
                    count={() => counts.count([name])}
                    load={loads && (loads.get(name) ?? NO_LOAD)}
                    findings={findings?.get(name) ?? 0}
                  />
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {!isReadOnly && kind === "key" && <NewTable tables={tables} />}
      {asks.value && (
        <ConfirmTables
          action={asks.value}
          names={[...chosen.value].sort()}
          close={() => {
            asks.value = undefined;
          }}
          done={async () => {
            chosen.value = new Set();
            counts.forget();
            await tables.refresh();
          }}
        />
      )}
    </div>
  );
}

const NO_LOAD: TableLoad = { rate: 0, hottest: undefined, scansToday: 0, scannedToday: 0 };

function Load({ load: { rate, hottest, scansToday, scannedToday }, findings }: LoadProps) {
  return (
    <>
      <td class="cut">
        {rate === 0 ? <span class="quiet">quiet</span> : `${count(Math.ceil(rate))}/s`}{" "}
        {hottest && (
          <span class="quiet" title={`${percent(hottest.share)} of it in ${hottest.partitionKey}`}>
            {hottest.partitionKey || "∅"} {percent(hottest.share)}
          </span>
        )}
      </td>
      <td class="number">
        {count(scansToday)}
        {scannedToday > 0 && <span class="quiet"> read {count(scannedToday)}</span>}
      </td>
      <td class="number">{findings === 0 ? "0" : <a href="#/advisor">{findings}</a>}</td>
    </>
  );
}

interface LoadProps {
  readonly load: TableLoad;
  readonly findings: number;
}

function Counts({
  fact,
  count: countNow,
  load,
  findings,
}: {
  fact: Fact | undefined;
  count: () => void;
  load: TableLoad | undefined;
  findings: number;
}) {
  const span = load ? 8 : 5;
  if (fact === undefined)
    return (
      <td colSpan={span}>
        <button type="button" class="link" onClick={countNow}>
          Count
        </button>
      </td>
    );
  if (fact === "counting")
    return (
      <td colSpan={span} class="quiet">
        counting…
      </td>
    );
  if (fact instanceof Error)
    return (
      <td colSpan={span} class="quiet">
        not counted: {fact.message}
      </td>
    );
  const { at, complete, entities, partitions, largest } = fact;
  const atLeast = complete ? "" : "≥ ";
  return (
    <>
      <td class="number">{atLeast + count(entities)}</td>
      <td class="number">{atLeast + count(partitions)}</td>
      <td class="number">{atLeast + bytes(fact.bytes)}</td>
      <td class="cut">
        {largest && (
          <>
            {largest.partitionKey || "∅"}{" "}
            <span class="quiet">{Math.round((100 * largest.entities) / entities)} %</span>
          </>
        )}
      </td>
      {load && <Load load={load} findings={findings} />}
      <td class="quiet">
        {complete ? age(at, Date.now()) : `the first part, ${age(at, Date.now())}`}
      </td>
    </>
  );
}

function Empty({ mayCreate }: { mayCreate: boolean }) {
  const failure = useSignal<ServerError | undefined>(undefined);
  /** Into a table of the file's name. */
  const load = async (file: File | undefined) => {
    if (!file) return;
    const table = tableNameOf(file.name);
    try {
      await createTable(table);
      fileToImport.value = file;
      location.hash = addressOf({ table });
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      failure.value = error;
    }
  };
  return (
    <div class="empty">
      <h2>No tables yet</h2>
      {mayCreate && (
        <label>
          Make one from a file of JSON lines, or of CSV{" "}
          <input
            type="file"
            accept=".jsonl,.csv,.json,.txt"
            onChange={(event) => load(event.currentTarget.files?.[0])}
          />
        </label>
      )}
      {failure.value && <Failure error={failure.value} />}
      <p>Create one below, from a program with the connection string, or load a file:</p>
      <pre>
        npx rowhouse import films.jsonl --to {location.origin}/{session.value!.account} --table
        Films
      </pre>
    </div>
  );
}

function NewTable({ tables }: { tables: TableNames }) {
  const failure = useSignal<ServerError | undefined>(undefined);
  const create = async (event: TargetedEvent<HTMLFormElement, Event>) => {
    event.preventDefault();
    const form = event.currentTarget;
    try {
      await createTable(String(new FormData(form).get("name") ?? ""));
      failure.value = undefined;
      form.reset();
      await tables.refresh();
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      failure.value = error;
    }
  };
  return (
    <form class="new-table" onSubmit={create}>
      <label>
        New table
        <input
          name="name"
          required
          minLength={3}
          maxLength={63}
          pattern="[A-Za-z][A-Za-z0-9]*"
          title="3 to 63 letters and digits, a letter first"
          spellcheck={false}
        />
      </label>
      <button type="submit">Create</button>
      {failure.value && <Failure error={failure.value} />}
    </form>
  );
}

/** Deletes or empties tables after the name was typed: of several, their number. */
function ConfirmTables({
  action,
  names,
  close,
  done,
}: {
  action: "delete" | "truncate";
  names: readonly string[];
  close: () => void;
  done: () => Promise<void>;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const failure = useSignal<ServerError | undefined>(undefined);
  useEffect(() => dialog.current?.showModal(), []);
  const { account } = session.value!;
  const verb = action === "delete" ? "Delete" : "Empty";
  const state = useSignal("");
  const abort = useRef(new AbortController());
  useEffect(() => () => abort.current.abort(), []);
  const wanted = names.length === 1 ? names[0]! : `${names.length} tables`;
  const remove = async () => {
    try {
      state.value = "Working…";
      for (const table of names) {
        if (action === "delete") await deleteTable(table);
        else
          await workInBulk(
            { table, filter: "", merge: undefined, isDryRun: false },
            ({ changed }) => {
              state.value = `${table}: ${count(changed)} entities deleted`;
            },
            abort.current.signal,
          );
      }
      dialog.current?.close();
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      failure.value = error;
    }
    state.value = "";
    await done();
  };
  return (
    <dialog ref={dialog} aria-labelledby="delete-title" onClose={close}>
      <h2 id="delete-title">
        {verb} {wanted} of {account}?
      </h2>
      <p>
        {action === "delete"
          ? "With all entities"
          : "All entities are deleted, those that somebody changes meanwhile excepted; tables, access policies and indexes stay"}
        , at {location.host}. This cannot be undone.
      </p>
      <ul class="names" aria-label="Tables" tabIndex={0}>
        {names.map((name) => (
          <li key={name}>{name}</li>
        ))}
      </ul>
      <ConfirmForm
        word={wanted}
        verb={verb}
        isOff={state.value !== ""}
        work={remove}
        backWord={state.value === "" ? "Keep" : "Stop"}
        back={() => dialog.current?.close()}
      >
        {failure.value && <Failure error={failure.value} />}
        <p role="status" class="quiet">
          {state.value}
        </p>
      </ConfirmForm>
    </dialog>
  );
}
