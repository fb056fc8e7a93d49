import { useRef } from "preact/hooks";
import { SCAN_BUDGET, type TableView } from "./table-view.ts";
import { count, counted } from "./text.ts";

/** Above the grid: shapes of the rows, the place in the key space, the columns. */
export function GridTools({
  view,
  add,
  changeAll,
}: {
  view: TableView;
  /** Begins a new entity; undefined where nothing may be changed. */
  add: (() => void) | undefined;
  changeAll: () => void;
}) {
  const { columns } = view;
  const shapes = columns.shapes.value;
  return (
    <div class="grid-tools">
      {shapes.length > 1 && (
        <div class="chips" role="group" aria-label="Rows with the same properties">
          {shapes.map(({ id, name, count: rows, properties }) => (
            <button
              type="button"
              key={id}
              aria-pressed={columns.shape.value === id}
              title={properties.join(", ")}
              onClick={() => {
                columns.shape.value = columns.shape.value === id ? undefined : id;
              }}
            >
              {name} <span class="quiet">{count(rows)}</span>
            </button>
          ))}
        </div>
      )}
      <span class="space" />
      {add && (
        <>
          <button type="button" onClick={add}>
            New <kbd>n</kbd>
          </button>
          <button type="button" onClick={changeAll}>
            Change all…
          </button>
        </>
      )}
      <Jump view={view} />
      <Columns view={view} />
    </div>
  );
}

/** The key space as a bar: a place in it is a key to begin reading at, which costs nothing. */
function Jump({ view }: { view: TableView }) {
  const sketch = view.sketch.value;
  const from = view.from.value;
  const jump = (key: string) => {
    view.from.value = key === "" ? undefined : key;
    view.run();
  };
  return (
    <form
      class="jump"
      onSubmit={(event) => {
        event.preventDefault();
        jump(String(new FormData(event.currentTarget).get("key") ?? ""));
      }}
    >
      {sketch && sketch.entities > 0 && (
        <div
          class="keyspace"
          aria-hidden="true"
          title="Begin at a place in the key space"
          onClick={(event) => {
            const { left, width } = event.currentTarget.getBoundingClientRect();
            const wanted = ((event.clientX - left) / width) * sketch.entities;
            let before = 0;
            const step = sketch.steps.find((each) => {
              before += each.entities;
              return before > wanted;
            });
            jump(step?.partitionKey ?? "");
          }}
        >
          {from !== undefined && <i style={{ left: `${100 * placeOf(from, view)}%` }} />}
        </div>
      )}
      <input
        key={from}
        name="key"
        aria-label="Begin at this partition key"
        placeholder="go to key"
        list="partition-keys"
        value={from ?? ""}
        spellcheck={false}
        autocomplete="off"
      />
      <datalist id="partition-keys">
        {partitionKeys(view).map((key) => (
          <option key={key} value={key} />
        ))}
      </datalist>
      {from !== undefined && (
        <button
          type="button"
          class="plain"
          aria-label="Begin at the first key again"
          onClick={() => jump("")}
        >
          ✕
        </button>
      )}
    </form>
  );
}

function placeOf(key: string, view: TableView): number {
  const { steps, entities } = view.sketch.value!;
  let before = 0;
  for (const step of steps) {
    if (step.partitionKey >= key) break;
    before += step.entities;
  }
  return before / entities;
}

const KEYS_OFFERED = 200;

function partitionKeys(view: TableView): string[] {
  const keys = new Set(view.sketch.value?.steps.map(({ partitionKey }) => partitionKey));
  return [...keys].slice(0, KEYS_OFFERED);
}

function Columns({ view }: { view: TableView }) {
  const menu = useRef<HTMLDetailsElement>(null);
  const { columns } = view;
  const known = columns.known.value;
  const shown = known.filter((name) => !columns.hidden.value.has(name));
  return (
    <details
      class="menu"
      ref={menu}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !menu.current?.open) return;
        menu.current.open = false;
        event.preventDefault();
      }}
    >
      <summary>
        {shown.length} of {counted(known.length, "column")}
      </summary>
      <div class="menu-box">
        {known.map((name) => (
          <label key={name}>
            <input
              type="checkbox"
              checked={!columns.hidden.value.has(name)}
              onChange={() => columns.toggle(name)}
            />{" "}
            {name}
          </label>
        ))}
        <hr />
        <label>
          <input
            type="checkbox"
            checked={columns.projects.value}
            onChange={() => {
              columns.projects.value = !columns.projects.value;
              view.run(true);
            }}
          />{" "}
          ask the server for these alone ($select)
        </label>
      </div>
    </details>
  );
}

/** Under the grid: what is shown, what was read, and whether that is everything. */
export function GridFoot({
  view,
  save,
  undo,
}: {
  view: TableView;
  save: () => void;
  undo: () => void;
}) {
  const changes = view.edits.changes.value;
  const partitions = new Set([...changes.values()].map(({ row }) => row.partitionKey)).size;
  const { read, returned, requests } = view.actual.value;
  const phase = view.phase.value;
  const { shape, sort } = view.columns;
  const shown = view.columns.arrange(view.rows.value).length;
  const words = [
    `${count(shown)} shown${shown === returned ? "" : ` of ${count(returned)} returned`}`,
    `${count(read)} read`,
    ...(view.from.value === undefined ? [] : [`from partition ${view.from.value} on`]),
    ...(requests > 1 ? [counted(requests, "request")] : []),
    ENDS[phase],
  ];
  return (
    <div class="grid-foot">
      <span role="status">
        {phase === "idle" || phase === "asks" ? "nothing read" : words.filter(Boolean).join(" · ")}
      </span>
      {(sort.value || shape.value) && (
        <span class="tag">
          {sort.value ? "sorted" : "chosen"} among the {count(returned)} rows that were read
        </span>
      )}
      <span class="space" />
      <span role="status" class="quiet">
        {view.notice.value}
      </span>
      {changes.size === 0 && view.edits.saves.value.length > 0 && (
        <button type="button" onClick={undo}>
          Undo the last save <kbd>Ctrl Z</kbd>
        </button>
      )}
      {changes.size > 0 && (
        <>
          <span class="tag staged">
            {count(changes.size)} staged in {counted(partitions, "partition")}
          </span>
          <button type="button" class="primary" onClick={save}>
            Save… <kbd>Ctrl S</kbd>
          </button>
        </>
      )}
      {(phase === "budget" || phase === "stopped" || phase === "more") && (
        <button type="button" onClick={() => view.goOn()}>
          {phase === "budget" ? `Go on, for ${count(SCAN_BUDGET)} more` : "Go on"}
        </button>
      )}
    </div>
  );
}

const ENDS: Readonly<Record<string, string>> = {
  running: "reading…",
  more: "there is more",
  budget: `stopped at the budget of ${count(SCAN_BUDGET)}: there is more`,
  stopped: "stopped: there may be more",
  end: "end of the result",
  failed: "broken off",
};
