import { type Signal, useSignal } from "@preact/signals";
import type { HeatHistory } from "@rowhouse/server/insight/partition-load";
import { useMemo } from "preact/hooks";
import { Failure } from "./failure.tsx";
import {
  clockTime,
  diagnose,
  drawHeat,
  exampleHistory,
  type Heat,
  type HeatKind,
  loadOf,
  PARTITION_TARGET,
  rounded,
  type Window,
} from "./heat-data.ts";
import { type CellRange, HeatPicture } from "./heat-picture.tsx";
import { useInsight } from "./insight-loader.ts";
import { SPANS, spanOf } from "./insight-spans.ts";
import { useCommand } from "./keys.tsx";
import { route } from "./route.ts";
import { addressOf, screenAddress } from "./route-text.ts";
import { counted } from "./text.ts";

/** As `api/v1/insight/heat` answers. */
interface HeatAnswer {
  /** Milliseconds since 1970. */
  readonly since: number;
  readonly parts: readonly HeatHistory[];
}

/** Keys of partitions by time: where the load is, and whether the cloud would bear it. */
export function HeatScreen() {
  const { value, failure, again } = useInsight<HeatAnswer>("heat");
  const isExample = useSignal(false);
  /** Kept here: the table goes while another range is read, and must come back as it was. */
  const isTableOpen = useSignal(false);
  const chosen = useSignal<CellRange | undefined>(undefined);
  const { subject: table, view } = route.value;
  const kind: HeatKind = view.kind === "read" || view.kind === "written" ? view.kind : "both";
  const isRelative = view.scale === "relative";
  const spanMs = spanOf(view.span);
  const answer = useMemo(
    () => (isExample.value ? exampleAnswer() : value),
    [value, isExample.value],
  );
  const zoom = zoomOf(view);
  const drawn = useMemo(() => {
    if (!answer) return undefined;
    const given = loadOf(answer.parts, kind, table);
    const time = zoom.time ?? recent(spanMs);
    const { load: written } = loadOf(answer.parts, "written", table);
    return {
      heat: drawHeat(given, time, zoom.keys),
      sentences: diagnose(given, written, time, (name) => `“${name}”`),
    };
  }, [answer, kind, table, spanMs, view.from, view.to, view.first, view.last]);
  const show = (to: Readonly<Record<string, string>>, of = table) => {
    chosen.value = undefined;
    location.hash = screenAddress("heat", of, { ...view, ...to });
  };
  const tables = tablesOf(answer?.parts ?? [], table);
  useCommand("key 0", () => show(NO_ZOOM));
  const isZoomed = zoom.time !== undefined || zoom.keys !== undefined;
  const goTo = ({ heat, range }: { heat: Heat; range: CellRange }) => {
    const { rows, from, stepMs } = heat;
    show({
      from: String(from + range.left * stepMs),
      to: String(from + (range.right + 1) * stepMs),
      first: rows[range.top]?.first ?? "",
      last: rows[range.bottom]?.last ?? "",
    });
  };
  return (
    <section class="insight" aria-labelledby="heat-title">
      <div class="insight-head">
        <h1 id="heat-title">Heat map</h1>
        <label class="inline">
          Table
          <select value={table} onChange={(event) => show(NO_ZOOM, event.currentTarget.value)}>
            <option value="">all</option>
            {tables.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label class="inline">
          Entities
          <select value={kind} onChange={(event) => show({ kind: event.currentTarget.value })}>
            <option value="both">read and written</option>
            <option value="read">read</option>
            <option value="written">written</option>
          </select>
        </label>
        <label class="inline">
          Last
          <select
            value={SPANS.find(([, ms]) => ms === spanMs)?.[0]}
            onChange={(event) => show({ ...NO_ZOOM, span: event.currentTarget.value })}
          >
            {SPANS.map(([name]) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <fieldset class="segments" aria-label="Colors">
          {(["absolute", "relative"] as const).map((scale) => (
            <button
              key={scale}
              type="button"
              aria-pressed={isRelative === (scale === "relative")}
              onClick={() => show({ scale: scale === "relative" ? scale : "" })}
            >
              {scale}
            </button>
          ))}
        </fieldset>
        {isZoomed && (
          <button type="button" onClick={() => show(NO_ZOOM)}>
            Whole map <kbd>0</kbd>
          </button>
        )}
      </div>
      {failure && <Failure error={failure} again={again} />}
      {isExample.value && (
        <p class="notice" role="status">
          An example, not your data.{" "}
          <button
            type="button"
            class="link"
            onClick={() => {
              isExample.value = false;
            }}
          >
            Back
          </button>
        </p>
      )}
      {drawn && drawn.sentences.length === 0 && !isExample.value && answer && (
        <div class="empty">
          <p>
            <strong>No traffic {isZoomed ? "here" : `in the last ${nameOf(spanMs)}`}.</strong>{" "}
            Watched since {clockTime(answer.since)}: from the first time that somebody opened the
            explorer, or from the start with <code>--insight</code>.
          </p>
          <button
            type="button"
            onClick={() => {
              isExample.value = true;
              location.hash = screenAddress("heat");
            }}
          >
            Show an example
          </button>
        </div>
      )}
      {drawn && drawn.sentences.length > 0 && (
        <>
          <ul class="verdicts" aria-label="What the map shows">
            {drawn.sentences.map(({ tone, text }) => (
              <li key={text} class={`verdict ${tone}`}>
                <span aria-hidden="true">{MARKS[tone]}</span> {text}
              </li>
            ))}
          </ul>
          <HeatPicture
            heat={drawn.heat}
            isRelative={isRelative}
            chosen={chosen.value}
            choose={(range) => {
              chosen.value = range;
            }}
            zoom={(range) => goTo({ heat: drawn.heat, range })}
          />
          {chosen.value && (
            <Chosen heat={drawn.heat} range={chosen.value} table={table} zoom={goTo} />
          )}
          <p class="quiet small">
            Colors:{" "}
            {isRelative
              ? "of the warmest cell"
              : `of ${rounded(PARTITION_TARGET)} entities/s, what the cloud serves of one partition`}
            , in equal ratios; striped: a partition above it. A column shows its worst moment.
            Totals are exact, shares of partitions come from a sample of 128 requests (± 9 points).
            A line is a hot key, a diagonal is appended keys, a band is a scan.
          </p>
          <Hottest heat={drawn.heat} table={table} isOpen={isTableOpen} />
        </>
      )}
    </section>
  );
}

const NO_ZOOM = { from: "", to: "", first: "", last: "" };
const MARKS = { free: "●", cheap: "●", fair: "◆", dear: "▲" } as const;

function exampleAnswer(): HeatAnswer {
  const now = Date.now();
  return { since: now - 900_000, parts: [exampleHistory(now)] };
}

function recent(spanMs: number): Window {
  const now = Date.now();
  return { from: now - spanMs, to: now };
}

function nameOf(spanMs: number): string {
  return SPANS.find(([, ms]) => ms === spanMs)?.[0] ?? "";
}

function zoomOf({ from, to, first, last }: Readonly<Record<string, string>>): {
  readonly time: Window | undefined;
  readonly keys: readonly [string, string] | undefined;
} {
  const [begin, end] = [Number(from), Number(to)];
  return {
    time: from && to && end > begin ? { from: begin, to: end } : undefined,
    keys: first !== undefined && last !== undefined ? [first, last] : undefined,
  };
}

function tablesOf(parts: readonly HeatHistory[], chosen: string): string[] {
  const names = new Set(chosen === "" ? [] : [chosen]);
  for (const { read, written, scanned } of parts)
    for (const { entities } of [...read, ...written, ...scanned])
      for (const [name] of entities) names.add(name.split("/", 1)[0]!);
  return [...names].sort();
}

/** The cells that a click or the keys have chosen. */
function Chosen({
  heat,
  range,
  table,
  zoom,
}: {
  heat: Heat;
  range: CellRange;
  table: string;
  zoom: (to: { heat: Heat; range: CellRange }) => void;
}) {
  const { rows, columns, from, stepMs, rates } = heat;
  const [first, last] = [rows[range.top], rows[range.bottom]];
  if (!first || !last) return null;
  let most = 0;
  for (let row = range.top; row <= range.bottom; row++)
    for (let column = range.left; column <= range.right; column++)
      most = Math.max(most, rates[row * columns + column] ?? 0);
  const partitions = rows
    .slice(range.top, range.bottom + 1)
    .reduce((sum, { names }) => sum + names, 0);
  return (
    <div class="chosen" role="status">
      <span>
        <strong>{first.first === last.last ? first.first : `${first.first} … ${last.last}`}</strong>{" "}
        <span class="quiet">
          {counted(partitions, "partition")}, {clockTime(from + range.left * stepMs)} to{" "}
          {clockTime(from + (range.right + 1) * stepMs)}
        </span>{" "}
        ≈ {rounded(most)} entities/s at most
      </span>
      <span class="space" />
      <RowsLink table={table} first={first.first} last={last.last} />
      <a href={screenAddress("activity", tableOf(table, first.first))}>Queries</a>
      <button type="button" onClick={() => zoom({ heat, range })}>
        Zoom in
      </button>
    </div>
  );
}

function tableOf(table: string, name: string): string {
  return table === "" ? name.split("/", 1)[0]! : table;
}

/** The server keeps the first 64 characters of `account/table/key`, so a key may go on. */
function RowsLink({ table, first, last }: { table: string; first: string; last: string }) {
  const name = tableOf(table, first);
  if (tableOf(table, last) !== name) return null;
  const key = (of: string) => (table === "" ? of.slice(name.length + 1) : of).replaceAll("'", "''");
  const [from, to] = [key(first), key(last)];
  const filter =
    from === to && from.length < 30
      ? `PartitionKey eq '${from}'`
      : `PartitionKey ge '${from}' and PartitionKey le '${to}\u{10ffff}'`;
  return <a href={addressOf({ table: name, filter })}>Rows</a>;
}

const HOTTEST = 12;

/** The map as a table, for who does not see it. */
function Hottest({ heat, table, isOpen }: { heat: Heat; table: string; isOpen: Signal<boolean> }) {
  const { rows, columns, peaks, rates, from, stepMs } = heat;
  const cells = rows
    .map((row, i) => {
      const own = Array.from(rates.subarray(i * columns, (i + 1) * columns));
      const most = Math.max(...own);
      const peak = Math.max(...peaks.subarray(i * columns, (i + 1) * columns));
      return { row, most, peak, at: from + own.indexOf(most) * stepMs };
    })
    .sort((a, b) => b.most - a.most)
    .slice(0, HOTTEST);
  return (
    <details
      class="twin"
      open={isOpen.value}
      onToggle={({ currentTarget }) => {
        isOpen.value = currentTarget.open;
      }}
    >
      <summary>The {Math.min(HOTTEST, rows.length)} warmest rows as a table</summary>
      <table>
        <thead>
          <tr>
            <th scope="col">Keys</th>
            <th scope="col" class="number">
              entities/s at most
            </th>
            <th scope="col" class="number">
              of one partition
            </th>
            <th scope="col">at</th>
            <th scope="col">open</th>
          </tr>
        </thead>
        <tbody>
          {cells.map(({ row, most, peak, at }) => (
            <tr key={row.first}>
              <th scope="row">{row.names === 1 ? row.first : `${row.first} … ${row.last}`}</th>
              <td class="number">{rounded(most)}</td>
              <td class="number">{rounded(peak)}</td>
              <td>{clockTime(at)}</td>
              <td>
                <RowsLink table={table} first={row.first} last={row.last} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
