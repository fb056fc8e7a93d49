import { useSignal } from "@preact/signals";
import { printFilter } from "@rowhouse/protocol/filter-printer";
import { useMemo, useRef } from "preact/hooks";
import { BuilderForm } from "./builder-form.tsx";
import { completionsOf } from "./completion.ts";
import { fromBuilder, toBuilder } from "./filter-builder.ts";
import { useCommand } from "./keys.tsx";
import { SCAN_BUDGET, type TableView } from "./table-view.ts";
import { count } from "./text.ts";

/** The filter as text or as a form, over one syntax tree. */
export function FilterBar({ view }: { view: TableView }) {
  const isForm = useSignal(false);
  const { tree, problem } = view.parsed.value;
  const built = problem ? undefined : toBuilder(tree);
  const showsForm = isForm.value && built !== undefined;
  const isRunning = view.phase.value === "running";
  const asks = view.phase.value === "asks";
  const isScan = view.isScan;
  return (
    <div class="filter-bar">
      <div class="filter-row">
        <div class="segments" role="group" aria-label="The filter as">
          <button
            type="button"
            aria-pressed={!showsForm}
            onClick={() => {
              isForm.value = false;
            }}
          >
            Text
          </button>
          <button
            type="button"
            aria-pressed={showsForm}
            disabled={built === undefined}
            title={
              built === undefined ? "This filter has parts that the form cannot show" : undefined
            }
            onClick={() => {
              isForm.value = true;
            }}
          >
            Form
          </button>
        </div>
        {showsForm ? (
          <BuilderForm
            built={built}
            view={view}
            change={(next) => {
              const made = fromBuilder(next);
              if (typeof made === "string") return made;
              view.filter.value = made ? printFilter(made) : "";
              return undefined;
            }}
          />
        ) : (
          <FilterInput view={view} />
        )}
        {isRunning ? (
          <button type="button" class="run" onClick={() => view.stop()}>
            Stop <kbd>Esc</kbd>
          </button>
        ) : (
          <button
            type="button"
            class={isScan ? "run scan" : "run primary"}
            disabled={view.plan.value === undefined}
            onClick={() => view.run(isScan)}
          >
            {isScan ? `Run scan, stop after ${count(SCAN_BUDGET)}` : "Run"} <kbd>Ctrl ↵</kbd>
          </button>
        )}
      </div>
      {problem && (
        <p class="problem" role="alert">
          <strong>{problem.message}.</strong>
          {problem.offset !== undefined && (
            <>
              {" "}
              <code>
                {view.filter.value.slice(Math.max(0, problem.offset - 24), problem.offset)}
                <mark aria-label="here">‸</mark>
                {view.filter.value.slice(problem.offset, problem.offset + 24)}
              </code>{" "}
            </>
          )}
          {problem.allowed}
        </p>
      )}
      {asks && <Question view={view} />}
    </div>
  );
}

function Question({ view }: { view: TableView }) {
  const most = view.estimate.value?.most;
  return (
    <p class="question" role="alert">
      <strong>No key answers this filter.</strong> It reads{" "}
      {most === undefined ? "the whole table, however large it is" : `${count(most)} entities`} and
      tests each of them. It stops after {count(SCAN_BUDGET)}; you can go on from there.{" "}
      <button type="button" class="scan" autofocus onClick={() => view.run(true)}>
        Run the scan
      </button>{" "}
      <button type="button" onClick={() => view.stop()}>
        Cancel
      </button>
    </p>
  );
}

function FilterInput({ view }: { view: TableView }) {
  const input = useRef<HTMLInputElement>(null);
  const cursor = useSignal(0);
  const isOpen = useSignal(false);
  const at = useSignal(-1);
  useCommand("filter", () => input.current?.focus());
  const text = view.filter.value;
  const offered = useMemo(
    () => (isOpen.value ? completionsOf(text.slice(0, cursor.value), view) : undefined),
    [isOpen.value, text, cursor.value, view],
  );
  const items = offered?.items ?? [];
  const look = () => {
    cursor.value = input.current?.selectionStart ?? 0;
    at.value = -1;
  };
  const accept = (item: string) => {
    const element = input.current!;
    const before =
      text.slice(0, offered!.from) + item + (item.endsWith("'") || item.endsWith("(") ? "" : " ");
    const rest = text.slice(cursor.value);
    view.filter.value = before + (before.endsWith(" ") ? rest.trimStart() : rest);
    element.value = view.filter.value;
    element.setSelectionRange(before.length, before.length);
    look();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { key } = event;
    if (key === "Enter") {
      event.preventDefault();
      if (items[at.value] !== undefined) accept(items[at.value]!);
      else {
        isOpen.value = false;
        view.run();
      }
      event.stopPropagation();
    } else if (items.length > 0 && (key === "ArrowDown" || key === "ArrowUp")) {
      event.preventDefault();
      const step = key === "ArrowDown" ? 1 : -1;
      at.value =
        (at.value + step + items.length + (at.value < 0 && step < 0 ? 1 : 0)) % items.length;
    } else if (key === "Tab" && !event.shiftKey && at.value >= 0) {
      event.preventDefault();
      accept(items[at.value]!);
    } else if (key === "Escape" && items.length > 0) {
      event.preventDefault();
      isOpen.value = false;
    }
  };
  return (
    <div class="filter-input">
      <input
        ref={input}
        type="text"
        value={text}
        spellcheck={false}
        autocomplete="off"
        role="combobox"
        aria-label="Filter"
        aria-autocomplete="list"
        aria-expanded={items.length > 0}
        aria-controls="completions"
        aria-invalid={view.parsed.value.problem !== undefined}
        aria-activedescendant={at.value >= 0 ? `completion-${at.value}` : undefined}
        placeholder="All entities. For example: PartitionKey eq '1984' and RowKey ge 'D'"
        onInput={(event) => {
          view.filter.value = event.currentTarget.value;
          isOpen.value = true;
          look();
        }}
        onKeyUp={(event) => {
          if (event.key.startsWith("Arrow") && items.length === 0) look();
        }}
        onClick={look}
        onBlur={() => {
          isOpen.value = false;
        }}
        onKeyDown={onKeyDown}
      />
      <ul
        id="completions"
        class="completions"
        role="listbox"
        aria-label="Completions"
        hidden={items.length === 0}
      >
        {items.map((item, i) => (
          <li
            key={item}
            id={`completion-${i}`}
            role="option"
            aria-selected={i === at.value}
            onMouseDown={(event) => {
              event.preventDefault();
              accept(item);
            }}
          >
            {item} <span class="quiet">{offered!.hint(item)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
