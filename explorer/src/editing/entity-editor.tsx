import { type Signal, useSignal } from "@preact/signals";
import { EDM_TYPES, type EdmType } from "@rowhouse/protocol/edm";
import { useEffect } from "preact/hooks";
import { accountAddress } from "../changeset.ts";
import { copyText } from "../copy-text.ts";
import type { Cell, Row } from "../entities.ts";
import { toJson } from "../entity-json.ts";
import { Failure } from "../failure.tsx";
import { ServerError } from "../session.ts";
import type { Change, KnownEntity, TableEdits } from "../staged.ts";
import { readEntity } from "../table-facts.ts";
import { FIRST_TEXT } from "./edm-text.ts";
import { readJsonDraft } from "./json-draft.ts";
import { operationOf, problemOfName, problemsOf } from "./transactions.ts";
import { ValueField } from "./value-field.tsx";

interface EditorProps {
  readonly table: string;
  readonly edits: TableEdits;
  /** Of the change, which may not be staged yet. */
  readonly id: string;
  readonly row: Row;
  readonly close: () => void;
  /** Opens another draft, such as a duplicate. */
  readonly open: (id: string, row: Row) => void;
}

/** An entity as a draft: as a form, or as JSON. What differs from what was read is staged at once, and written by no means. */
export function EntityEditor({ table, edits, id, row, close, open }: EditorProps) {
  const read = useSignal<KnownEntity | undefined>(undefined);
  const failure = useSignal<ServerError | undefined>(undefined);
  const isJson = useSignal(false);
  const jsonProblem = useSignal("");
  const copied = useSignal("");
  const change = edits.changes.value.get(id);
  useEffect(() => {
    if (edits.changes.peek().has(id)) return;
    let isLeft = false;
    readEntity(table, row).then(
      (found) => {
        if (!isLeft) read.value = found;
      },
      (error) => {
        if (!(error instanceof ServerError)) throw error;
        if (!isLeft) failure.value = error;
      },
    );
    return () => {
      isLeft = true;
    };
  }, [table, id, row, edits, read, failure]);
  const base = change?.base ?? read.value;
  const draft = change?.row ?? base?.row;
  const isNew = change?.kind === "insert";
  const stage = (next: Row) =>
    edits.stage(
      id,
      base ? { kind: "update", row: next, base } : { kind: "insert", row: next, base },
    );
  return (
    <aside class="entity" aria-label={`Entity ${row.partitionKey} / ${row.rowKey}`}>
      <div class="page-head">
        <h2>{isNew ? "New entity" : "Entity"}</h2>
        {change && <span class="tag staged">{STAGED[change.kind]}</span>}
        <span class="space" />
        <button type="button" class="plain" aria-label="Close the entity" onClick={close}>
          ✕
        </button>
      </div>
      {failure.value && <Failure error={failure.value} />}
      {!draft && !failure.value && <p class="quiet">Reading…</p>}
      {draft && change?.kind !== "delete" && (
        <>
          <div class="segments" role="group" aria-label="The entity as">
            <button
              type="button"
              aria-pressed={!isJson.value}
              disabled={jsonProblem.value !== ""}
              onClick={() => {
                isJson.value = false;
              }}
            >
              Form
            </button>
            <button
              type="button"
              aria-pressed={isJson.value}
              onClick={() => {
                isJson.value = true;
              }}
            >
              JSON
            </button>
          </div>
          {isJson.value ? (
            <JsonDraft draft={draft} known={base?.row} stage={stage} problem={jsonProblem} />
          ) : (
            <FormDraft draft={draft} base={base} stage={stage} />
          )}
        </>
      )}
      {draft && <WhatIsSent change={change} table={table} />}
      {draft && (
        <div class="entity-tools">
          {change && (
            <button
              type="button"
              onClick={() => {
                edits.stage(id, undefined);
                if (isNew) close();
                else read.value ??= base;
              }}
            >
              {isNew ? "Discard it" : "Undo these changes"}
            </button>
          )}
          <button type="button" onClick={() => open(edits.stageInsert(copyOf(draft)), draft)}>
            Duplicate
          </button>
          {base && change?.kind !== "delete" && (
            <button
              type="button"
              class="danger"
              onClick={() => edits.stage(id, { kind: "delete", row: base.row, base })}
            >
              Delete
            </button>
          )}
          <button
            type="button"
            onClick={async () => {
              copied.value = (await copyText(toJson(draft))) ? "copied" : "could not copy";
            }}
          >
            Copy JSON
          </button>
          <span role="status" class="quiet">
            {copied.value}
          </span>
        </div>
      )}
      {base && <p class="mono quiet small">ETag {base.etag}</p>}
    </aside>
  );
}

const STAGED: Readonly<Record<Change["kind"], string>> = {
  insert: "new, not saved",
  update: "changed, not saved",
  delete: "to be deleted, not saved",
};

/** With a row key that is free. */
function copyOf(row: Row): Row {
  const cells = new Map(row.cells);
  cells.delete("Timestamp");
  return { ...row, rowKey: `${row.rowKey} copy`, cells };
}

function WhatIsSent({ change, table }: { change: Change | undefined; table: string }) {
  if (!change) return <p class="quiet small">Nothing changed. Timestamp is the server's.</p>;
  const problems = problemsOf(change);
  if (problems.size > 0)
    return (
      <p class="problem small" role="status">
        Cannot be saved like this:{" "}
        {[...problems.keys()].map((name) => name || "the entity").join(", ")}.
        {problems.has("") && ` ${problems.get("")}`}
      </p>
    );
  const { words } = operationOf(change, { base: accountAddress(), table });
  return (
    <p class="quiet small" role="status">
      Saving will send: {words}
      {change.base && ", if nobody changed it since"}.
    </p>
  );
}

function FormDraft({
  draft,
  base,
  stage,
}: {
  draft: Row;
  base: KnownEntity | undefined;
  stage: (row: Row) => void;
}) {
  const problems = problemsOf({ kind: "update", row: draft, base });
  const set = (name: string, cell: Cell | undefined) => {
    const cells = new Map(draft.cells);
    if (cell) cells.set(name, cell);
    else cells.delete(name);
    stage({ ...draft, cells });
  };
  const removed = [...(base?.row.cells ?? [])].filter(([name]) => !draft.cells.has(name));
  return (
    <div class="fields">
      {(["partitionKey", "rowKey"] as const).map((key) => {
        const name = key === "partitionKey" ? "PartitionKey" : "RowKey";
        return (
          <label key={key} class="field">
            <span class="field-name">{name}</span>
            <input
              class="mono"
              type="text"
              spellcheck={false}
              autocomplete="off"
              value={draft[key]}
              readOnly={base !== undefined}
              aria-invalid={problems.has(name)}
              onInput={(event) => stage({ ...draft, [key]: event.currentTarget.value })}
            />
            {problems.has(name) && <span class="problem small">{problems.get(name)}</span>}
          </label>
        );
      })}
      {[...draft.cells]
        .filter(([name]) => name !== "Timestamp")
        .map(([name, cell]) => (
          <ValueField
            key={name}
            name={name}
            cell={cell}
            before={base?.row.cells.get(name)}
            problem={problems.get(name)}
            change={(next) => set(name, next)}
            remove={() => set(name, undefined)}
          />
        ))}
      {removed
        .filter(([name]) => name !== "Timestamp")
        .map(([name, cell]) => (
          <div key={name} class="field changed">
            <span class="field-name">
              • <s>{name}</s> <span class="quiet">removed</span>
            </span>
            <button type="button" onClick={() => set(name, cell)}>
              Put {name} back
            </button>
          </div>
        ))}
      <AddProperty
        draft={draft}
        add={(name, type) => set(name, { type, text: FIRST_TEXT[type] })}
      />
    </div>
  );
}

function AddProperty({ draft, add }: { draft: Row; add: (name: string, type: EdmType) => void }) {
  const problem = useSignal("");
  return (
    <form
      class="add-property"
      onSubmit={(event) => {
        event.preventDefault();
        const form = event.currentTarget;
        const data = new FormData(form);
        const name = String(data.get("name") ?? "");
        problem.value =
          problemOfName(name) ?? (draft.cells.has(name) ? "The entity has this property." : "");
        if (problem.value !== "") return;
        add(name, data.get("type") as EdmType);
        form.reset();
      }}
    >
      <input
        name="name"
        aria-label="Name of a new property"
        placeholder="new property"
        spellcheck={false}
        autocomplete="off"
      />
      <select name="type" aria-label="Type of the new property">
        {EDM_TYPES.map((type) => (
          <option key={type} value={type}>
            {type.slice("Edm.".length)}
          </option>
        ))}
      </select>
      <button type="submit">Add</button>
      {problem.value && (
        <p class="problem small" role="alert">
          {problem.value}
        </p>
      )}
    </form>
  );
}

/** The same draft as text. What cannot be read stays as it was typed, and the draft as it was before. */
function JsonDraft({
  draft,
  known,
  stage,
  problem,
}: {
  draft: Row;
  known: Row | undefined;
  stage: (row: Row) => void;
  problem: Signal<string>;
}) {
  const text = useSignal(jsonOf(draft));
  const notes = useSignal<readonly string[]>([]);
  return (
    <>
      <textarea
        class="mono json"
        aria-label="The entity as JSON"
        aria-invalid={problem.value !== ""}
        spellcheck={false}
        rows={18}
        value={text.value}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          const read = readJsonDraft(text.value, known);
          problem.value = "problem" in read ? read.problem : "";
          notes.value = "problem" in read ? [] : read.notes;
          if ("row" in read) stage(read.row);
        }}
      />
      {problem.value && (
        <p class="problem small" role="alert">
          {problem.value} The draft stays as it was before.{" "}
          <button
            type="button"
            class="link"
            onClick={() => {
              text.value = jsonOf(draft);
              problem.value = "";
            }}
          >
            Back to the draft
          </button>
        </p>
      )}
      {notes.value.map((note) => (
        <p key={note} class="quiet small">
          {note}
        </p>
      ))}
    </>
  );
}

function jsonOf(row: Row): string {
  const cells = new Map(row.cells);
  cells.delete("Timestamp");
  return toJson({ ...row, cells });
}
