import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { cellOf, KEYS } from "./column-choice.ts";
import { copyText } from "./copy-text.ts";
import type { Cell, Row } from "./entities.ts";
import { toJson } from "./entity-json.ts";
import { GridHead } from "./grid-head.tsx";
import { columnsBetween, offsetsOf, rowsBetween } from "./grid-window.ts";
import { type Change, changeOf, idOf, isSameCell, withStaged } from "./staged.ts";
import { CELL_MAX, type TableView } from "./table-view.ts";
import { shortCount } from "./text.ts";

export const ROW_HEIGHT = 28;
/** Rows drawn above and below what is seen, so that scrolling shows no gap before the next frame. */
const OVERSCAN = 12;
/** So many rows before the last, the next page is read. */
const READ_AHEAD = 60;

/**
 * The rows that were read. Only what is seen is drawn: all rows have one height, so which ones those are is a division.
 * The grid is one stop of the Tab key; the arrow keys move a cell, which is named to assistive technology by its id.
 */
export function Grid({
  view,
  open,
  remove,
}: {
  view: TableView;
  open: (row: Row) => void;
  /** Stages the deletion of rows; undefined where nothing may be changed. */
  remove: ((rows: readonly Row[]) => void) | undefined;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const left = useSignal(0);
  const size = useSignal({ width: 1000, height: 600 });
  const active = useSignal({ row: 0, column: 0 });
  /** Where choosing with Shift began. */
  const anchor = useSignal(0);
  const { columns, chosen } = view;
  const changes = view.edits.changes.value;
  const rows = useComputed(() =>
    withStaged(columns.arrange(view.rows.value), view.edits.changes.value),
  );
  const names = columns.shown.value;
  const widths = names.map((name) => columns.widthOf(name));
  const offsets = offsetsOf(widths);
  const frozen = offsets[KEYS.length]!;
  const seen = rowsBetween(top.value, size.value.height, ROW_HEIGHT, rows.value.length, OVERSCAN);
  const across = columnsBetween(
    offsets,
    KEYS.length,
    left.value + frozen,
    left.value + size.value.width,
  );

  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry!.contentRect;
      size.value = { width, height };
    });
    observer.observe(scroller.current!);
    return () => observer.disconnect();
  }, [size]);
  // Another run begins at the first row.
  useLayoutEffect(() => {
    scroller.current!.scrollTop = 0;
    active.value = { row: 0, column: 0 };
    chosen.value = new Set();
  }, [view.ranFilter.value, active, chosen]);
  useEffect(() => {
    if (view.phase.value === "more" && seen.to + READ_AHEAD >= rows.value.length) view.goOn();
  }, [seen.to, rows.value.length, view.phase.value, view]);

  const move = (row: number, column: number) => {
    const at = {
      row: Math.min(Math.max(row, 0), rows.value.length - 1),
      column: Math.min(Math.max(column, 0), names.length - 1),
    };
    active.value = at;
    const element = scroller.current!;
    const y = at.row * ROW_HEIGHT;
    const page = size.value.height - ROW_HEIGHT;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + ROW_HEIGHT > element.scrollTop + page) element.scrollTop = y + ROW_HEIGHT - page;
    if (at.column < KEYS.length) return;
    const [from, to] = [offsets[at.column]!, offsets[at.column + 1]!];
    if (from - frozen < element.scrollLeft) element.scrollLeft = from - frozen;
    else if (to > element.scrollLeft + size.value.width) element.scrollLeft = to - size.value.width;
  };
  const choose = (from: number, to: number) => {
    const range = rows.value.slice(Math.min(from, to), Math.max(from, to) + 1);
    chosen.value = new Set(range.map(idOf));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { row, column } = active.value;
    const isControl = event.ctrlKey || event.metaKey;
    const page = Math.max(1, Math.floor(size.value.height / ROW_HEIGHT) - 2);
    const last = rows.value.length - 1;
    const steps: Readonly<Record<string, readonly [number, number]>> = {
      ArrowDown: [row + 1, column],
      ArrowUp: [row - 1, column],
      ArrowRight: [row, column + 1],
      ArrowLeft: [row, column - 1],
      PageDown: [row + page, column],
      PageUp: [row - page, column],
      Home: isControl ? [0, 0] : [row, 0],
      End: isControl ? [last, names.length - 1] : [row, names.length - 1],
    };
    const step = steps[event.key];
    const current = rows.value[row];
    if (step) {
      move(...step);
      if (event.shiftKey && row !== active.value.row) choose(anchor.value, active.value.row);
      else anchor.value = active.value.row;
    } else if ((event.key === "Enter" || event.key === "F2") && current && !isControl)
      open(current);
    else if (event.key === " " && current) {
      anchor.value = row;
      const next = new Set(chosen.value);
      if (!next.delete(idOf(current))) next.add(idOf(current));
      chosen.value = next;
    } else if (event.key === "Delete" && current && remove) {
      const some = rows.value.filter((each) => chosen.value.has(idOf(each)));
      remove(some.length > 0 ? some : [current]);
      chosen.value = new Set();
    } else if (event.key === "Escape" && chosen.value.size > 0) chosen.value = new Set();
    else if (event.key === "c" && isControl && current && String(getSelection()) === "") {
      const some = rows.value.filter((each) => chosen.value.has(idOf(each)));
      copyText(
        some.length > 0 ? some.map(toJson).join("") : (cellOf(current, names[column]!)?.text ?? ""),
      );
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const isDrawn = active.value.row >= seen.from && active.value.row < seen.to;
  const isColumnDrawn =
    active.value.column < KEYS.length ||
    (active.value.column >= across.from && active.value.column < across.to);
  return (
    <div
      ref={scroller}
      class="grid"
      role="grid"
      tabIndex={0}
      aria-label={`Entities of ${view.table}`}
      aria-rowcount={view.phase.value === "end" ? rows.value.length + 1 : -1}
      aria-colcount={names.length}
      aria-multiselectable="true"
      aria-activedescendant={
        isDrawn && isColumnDrawn ? cellId(active.value.row, active.value.column) : undefined
      }
      onKeyDown={onKeyDown}
      onScroll={(event) => {
        top.value = event.currentTarget.scrollTop;
        left.value = event.currentTarget.scrollLeft;
      }}
    >
      <GridHead view={view} names={names} widths={widths} across={across} offsets={offsets} />
      <div
        class="grid-body"
        role="rowgroup"
        style={{ height: `${rows.value.length * ROW_HEIGHT}px`, width: `${offsets.at(-1)}px` }}
      >
        {rows.value.slice(seen.from, seen.to).map((row, i) => (
          <GridRow
            key={seen.from + i}
            index={seen.from + i}
            row={row}
            names={names}
            widths={widths}
            across={across}
            gap={offsets[across.from]! - frozen}
            column={active.value.row === seen.from + i ? active.value.column : -1}
            isChosen={chosen.value.size > 0 && chosen.value.has(idOf(row))}
            change={changeOf(row, changes)}
            choose={(column) => {
              active.value = { row: seen.from + i, column };
            }}
            open={open}
          />
        ))}
      </div>
    </div>
  );
}

function cellId(row: number, column: number): string {
  return `cell-${row}-${column}`;
}

interface RowProps {
  readonly index: number;
  readonly row: Row;
  readonly names: readonly string[];
  readonly widths: readonly number[];
  /** The columns drawn besides the keys, which always are. */
  readonly across: { readonly from: number; readonly to: number };
  /** The width of those between the keys and the first of them. */
  readonly gap: number;
  /** The active one, if it is in this row; else -1. */
  readonly column: number;
  readonly isChosen: boolean;
  /** What is staged for it. */
  readonly change: Change | undefined;
  readonly choose: (column: number) => void;
  readonly open: (row: Row) => void;
}

function GridRow(props: RowProps) {
  const { index, row, names, widths, across, gap, column, isChosen, change, choose, open } = props;
  const base = change?.kind === "update" ? change.base?.row : undefined;
  const draw = (i: number) => {
    const name = names[i]!;
    const cell = cellOf(row, name);
    const isKey = i < KEYS.length;
    return (
      <div
        key={name}
        id={cellId(index, i)}
        role="gridcell"
        aria-colindex={i + 1}
        aria-selected={i === column}
        class={`cell ${isKey ? `key key-${i}` : ""} ${cell ? classOf(cell) : "absent"} ${base && !isKey && name !== "Timestamp" && !isSameCell(base.cells.get(name), cell) ? "changed" : ""}`}
        style={{ width: `${widths[i]}px`, ...(i === 1 && { left: `${widths[0]}px` }) }}
        onClick={() => choose(i)}
      >
        {i === 0 && change && <Mark kind={change.kind} />}
        {cell ? <Value cell={cell} /> : "—"}
      </div>
    );
  };
  const drawn = names.slice(across.from, across.to).map((_, i) => draw(across.from + i));
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isChosen}
      class={`row ${index % 2 === 1 ? "odd" : ""} ${isChosen ? "chosen" : ""} ${change ? `staged-${change.kind}` : ""}`}
      style={{ top: `${index * ROW_HEIGHT}px` }}
      onDblClick={() => open(row)}
    >
      {KEYS.map((_, i) => draw(i))}
      {gap > 0 && <div class="gap" style={{ width: `${gap}px` }} />}
      {drawn}
    </div>
  );
}

const MARKS = {
  insert: ["+", "new, not saved"],
  update: ["•", "changed, not saved"],
  delete: ["−", "to be deleted, not saved"],
} as const;

function Mark({ kind }: { kind: Change["kind"] }) {
  const [sign, words] = MARKS[kind];
  return (
    <span class="row-mark" title={words}>
      <span aria-hidden="true">{sign}</span>
      <span class="hidden">{words}</span>
    </span>
  );
}

const NUMERIC = new Set(["Edm.Int32", "Edm.Int64", "Edm.Double"]);

function classOf({ type, text }: Cell): string {
  if (type === "Edm.String") return text === "" ? "void" : "";
  return NUMERIC.has(type) ? "numeric" : "typed";
}

function Value({ cell: { type, text, length } }: { cell: Cell }) {
  if (type === "Edm.String" && text === "") return <span title="An empty string">∅</span>;
  if (type === "Edm.Int64")
    return (
      <>
        {text}
        <sup title="Int64">64</sup>
      </>
    );
  const whole = length ?? text.length;
  if (whole <= CELL_MAX) return <bdi>{text}</bdi>;
  return (
    <>
      <span class="size">{shortCount(whole)}</span>
      <bdi>{text.slice(0, CELL_MAX)}…</bdi>
    </>
  );
}
