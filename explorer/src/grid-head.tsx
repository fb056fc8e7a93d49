import { KEYS, type Sort } from "./column-choice.ts";
import type { Window } from "./grid-window.ts";
import type { TableView } from "./table-view.ts";

interface HeadProps {
  readonly view: TableView;
  readonly names: readonly string[];
  readonly widths: readonly number[];
  readonly offsets: readonly number[];
  readonly across: Window;
}

export function GridHead({ view, names, widths, offsets, across }: HeadProps) {
  const gap = offsets[across.from]! - offsets[KEYS.length]!;
  const drawn = names.slice(across.from, across.to).map((_, i) => across.from + i);
  const head = (i: number) => (
    <HeadCell
      key={names[i]}
      view={view}
      name={names[i]!}
      index={i}
      width={widths[i]!}
      left={i === 1 ? widths[0]! : undefined}
    />
  );
  return (
    <div class="grid-head" role="rowgroup" style={{ width: `${offsets.at(-1)}px` }}>
      <div role="row" aria-rowindex={1} class="head-row">
        {KEYS.map((_, i) => head(i))}
        {gap > 0 && <div class="gap" style={{ width: `${gap}px` }} />}
        {drawn.map(head)}
      </div>
    </div>
  );
}

const SHORT: Readonly<Record<string, string>> = {
  ...{ String: "", Int32: "int", Int64: "int64", Double: "double", Boolean: "bool" },
  ...{ DateTime: "time", Guid: "guid", Binary: "bytes" },
};

interface HeadCellProps {
  readonly view: TableView;
  readonly name: string;
  readonly index: number;
  readonly width: number;
  readonly left: number | undefined;
}

function HeadCell({ view, name, index, width, left }: HeadCellProps) {
  const { columns } = view;
  const sort = columns.sort.value;
  const isSorted = sort?.property === name;
  const type = (columns.types.value.get(name) ?? "").replace("Edm.", "");
  const isKey = index < KEYS.length;
  const next: Sort | undefined = !isSorted
    ? { property: name, descending: false }
    : sort.descending
      ? undefined
      : { property: name, descending: true };
  return (
    <div
      role="columnheader"
      aria-colindex={index + 1}
      aria-sort={isSorted ? (sort.descending ? "descending" : "ascending") : "none"}
      class={`cell ${isKey ? `key key-${index}` : ""}`}
      style={{ width: `${width}px`, ...(left !== undefined && { left: `${left}px` }) }}
    >
      <button
        type="button"
        tabIndex={-1}
        title={next ? "Sort the rows that were read; no request is sent" : "Back to key order"}
        onClick={() => {
          columns.sort.value = next;
        }}
      >
        {name}
        {isSorted && <span aria-hidden="true">{sort.descending ? " ▾" : " ▴"}</span>}{" "}
        <span class="type">{SHORT[type] ?? type}</span>
      </button>
      <span
        class="grip"
        aria-hidden="true"
        onPointerDown={(event) => startResize(event, width, (to) => columns.setWidth(name, to))}
      />
    </div>
  );
}

function startResize(event: PointerEvent, width: number, resize: (width: number) => void): void {
  const grip = event.currentTarget as HTMLElement;
  const from = event.clientX;
  grip.setPointerCapture(event.pointerId);
  const move = ({ clientX }: PointerEvent) => resize(width + clientX - from);
  grip.addEventListener("pointermove", move);
  grip.addEventListener("lostpointercapture", () => grip.removeEventListener("pointermove", move), {
    once: true,
  });
  event.preventDefault();
}
