import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { clockTime, type Heat, PARTITION_TARGET, rounded, warmthOf } from "./heat-data.ts";
import { theme } from "./theme.ts";

/** Cells from one corner to the other, both included. */
export interface CellRange {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

interface Cell {
  readonly row: number;
  readonly column: number;
}

const LABELS = 150;
const SUMS = 60;
const AXIS = 20;
const SCANS = 14;
const GAP = 6;

interface PictureProps {
  heat: Heat;
  isRelative: boolean;
  chosen: CellRange | undefined;
  choose: (range: CellRange) => void;
  zoom: (range: CellRange) => void;
}

/** The map: drawn on a canvas, moved in by the mouse or the keys. */
export function HeatPicture(props: PictureProps) {
  const { heat, isRelative, chosen, choose, zoom } = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useSignal(0);
  /** What the system prefers: a canvas does not take the colors of a theme by itself. */
  const isDark = useSignal(false);
  const said = useSignal("");
  const from = useRef<Cell | undefined>(undefined);
  const rowHeight = Math.max(9, Math.min(26, Math.floor(420 / Math.max(heat.rows.length, 1))));
  const height = heat.rows.length * rowHeight + GAP + SCANS + AXIS;
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      width.value = Math.floor(entry!.contentRect.width);
    });
    observer.observe(box.current!);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const drawAgain = () => {
      isDark.value = dark.matches;
    };
    dark.addEventListener("change", drawAgain);
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", drawAgain);
    };
  }, []);
  const plot = { left: LABELS, width: Math.max(50, width.value - LABELS - SUMS), rowHeight };
  useLayoutEffect(() => {
    const to = canvas.current;
    if (!to || width.value === 0) return;
    const scale = devicePixelRatio;
    to.width = width.value * scale;
    to.height = height * scale;
    const pen = to.getContext("2d")!;
    pen.scale(scale, scale);
    paint(pen, heat, { ...plot, height, isRelative, chosen });
  });
  const cellAt = (event: PointerEvent): Cell => {
    const { left, top } = canvas.current!.getBoundingClientRect();
    const clamp = (value: number, most: number) => Math.max(0, Math.min(most - 1, value));
    const x = (event.clientX - left - plot.left) / plot.width;
    return {
      column: clamp(Math.floor(x * heat.columns), heat.columns),
      row: clamp(Math.floor((event.clientY - top) / rowHeight), heat.rows.length),
    };
  };
  const move = (event: KeyboardEvent) => {
    const { columns, rows } = heat;
    const now = chosen ?? { left: columns - 1, right: columns - 1, top: 0, bottom: 0 };
    const [x, y] = STEPS[event.key] ?? [0, 0];
    if (event.key === "Enter" && chosen) zoom(chosen);
    else if (x === 0 && y === 0) return;
    else if (event.shiftKey)
      choose({
        ...now,
        right: Math.max(now.left, Math.min(columns - 1, now.right + x)),
        bottom: Math.max(now.top, Math.min(rows.length - 1, now.bottom + y)),
      });
    else {
      const column = Math.max(0, Math.min(columns - 1, now.left + x));
      const row = Math.max(0, Math.min(rows.length - 1, now.top + y));
      choose({ left: column, right: column, top: row, bottom: row });
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div ref={box} class="heat-box">
      <div
        class="heat"
        role="application"
        aria-roledescription="heat map"
        aria-label={`Load of ${heat.rows.length} rows of keys from ${clockTime(heat.from)}. Arrows move, Shift and arrows select, Enter zooms in, 0 shows the whole map.`}
        tabIndex={0}
        style={{ height: `${height}px` }}
        onKeyDown={move}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          from.current = cellAt(event);
          choose(rangeOf(from.current, from.current));
        }}
        onPointerMove={(event) => {
          const cell = cellAt(event);
          if (from.current) choose(rangeOf(from.current, cell));
          said.value = textOf(heat, cell);
        }}
        onPointerUp={(event) => {
          const began = from.current;
          from.current = undefined;
          const to = cellAt(event);
          if (began && (began.row !== to.row || began.column !== to.column))
            zoom(rangeOf(began, to));
        }}
        onPointerLeave={() => {
          said.value = "";
        }}
      >
        <canvas ref={canvas} data-theme={`${theme.value} ${isDark.value}`} />
      </div>
      <p class="heat-said small quiet" aria-hidden="true">
        {said.value || "\u00a0"}
      </p>
    </div>
  );
}

const STEPS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

function rangeOf(a: Cell, b: Cell): CellRange {
  return {
    left: Math.min(a.column, b.column),
    right: Math.max(a.column, b.column),
    top: Math.min(a.row, b.row),
    bottom: Math.max(a.row, b.row),
  };
}

function textOf(
  { rows, columns, rates, peaks, from, stepMs }: Heat,
  { row, column }: Cell,
): string {
  const shown = rows[row];
  if (!shown) return "";
  const cell = row * columns + column;
  const keys =
    shown.names === 1 ? shown.first : `${shown.first} … ${shown.last}, ${shown.names} partitions`;
  const busiest = shown.names === 1 ? "" : `, the busiest partition ${rounded(peaks[cell]!)}/s`;
  return `${keys} · ${clockTime(from + column * stepMs)} · ≈ ${rounded(rates[cell]!)} entities/s${busiest}`;
}

interface Look {
  readonly left: number;
  readonly width: number;
  readonly rowHeight: number;
  readonly height: number;
  readonly isRelative: boolean;
  readonly chosen: CellRange | undefined;
}

function paint(pen: CanvasRenderingContext2D, heat: Heat, look: Look): void {
  const { rows, columns, rates, peaks, scanned } = heat;
  const { left, width, rowHeight, height, isRelative, chosen } = look;
  const styles = getComputedStyle(pen.canvas);
  const [text, quiet, dear, line] = ["--text", "--quiet", "--dear", "--line"].map((name) =>
    colorOf(pen, styles, name),
  ) as [string, string, string, string];
  const isDark = isDarkGround(pen, styles);
  const ramp = Array.from({ length: 33 }, (_, i) => rampColor(i / 32, isDark));
  const most = isRelative ? Math.max(1, ...rates) : PARTITION_TARGET;
  const colorFor = (rate: number) => ramp[Math.round(32 * warmthOf(rate, most))]!;
  const x = (column: number) => left + (column / columns) * width;
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const bottom = rows.length * rowHeight;
  for (let row = 0; row < rows.length; row++) {
    const top = row * rowHeight;
    let worst = 0;
    for (let column = 0; column < columns; column++) {
      const cell = row * columns + column;
      const rate = rates[cell]!;
      worst = Math.max(worst, rate);
      pen.fillStyle = colorFor(rate);
      const [from, to] = [Math.floor(x(column)), Math.floor(x(column + 1))];
      pen.fillRect(from, top, to - from, rowHeight - 1);
      if (peaks[cell]! > PARTITION_TARGET) {
        pen.fillStyle = dear;
        pen.fillRect(from, top, to - from, rowHeight - 1);
        pen.fillStyle = isDark ? "#000" : "#fff";
        pen.fillRect(from + (to - from) / 2, top, 1, rowHeight - 1);
      }
    }
    pen.fillStyle = quiet;
    pen.fillRect(
      left + width + GAP,
      top + 2,
      ((SUMS - GAP) * worst) / Math.max(1, ...rates),
      rowHeight - 4,
    );
    if (rowHeight < 12 && row % 2 === 1) continue;
    const { first, names } = rows[row]!;
    pen.fillStyle = text;
    pen.fillText(
      fitted(pen, names === 1 ? first : `${first} … (${names})`, left - GAP),
      0,
      top + rowHeight / 2,
    );
  }
  const band = bottom + GAP;
  const scannedMost = isRelative ? Math.max(1, ...scanned) : PARTITION_TARGET;
  for (let column = 0; column < columns; column++) {
    pen.fillStyle = ramp[Math.round(32 * warmthOf(scanned[column]!, scannedMost))]!;
    pen.fillRect(Math.floor(x(column)), band, Math.ceil(width / columns), SCANS - 2);
  }
  pen.fillStyle = text;
  pen.fillText("across partitions", 0, band + SCANS / 2);
  pen.fillStyle = line;
  pen.fillRect(left, band - GAP / 2, width, 1);
  pen.fillStyle = quiet;
  const marks = Math.max(1, Math.floor(width / 120));
  for (let i = 0; i < marks; i++) {
    const column = Math.floor((i * columns) / marks);
    pen.fillText(clockTime(heat.from + column * heat.stepMs), x(column), height - AXIS / 2);
  }
  if (!chosen) return;
  pen.strokeStyle = text;
  pen.lineWidth = 2;
  pen.strokeRect(
    x(chosen.left),
    chosen.top * rowHeight,
    x(chosen.right + 1) - x(chosen.left),
    (chosen.bottom - chosen.top + 1) * rowHeight - 1,
  );
}

/** Even steps of lightness: what is warmer has more contrast to the ground, in both themes. */
function rampColor(warmth: number, isDark: boolean): string {
  const lightness = isDark ? 0.24 + 0.6 * warmth : 0.97 - 0.57 * warmth;
  return `oklch(${lightness} ${0.01 + 0.15 * warmth} ${275 - 30 * warmth})`;
}

/** A property of the style sheet as a canvas reads it: it does not know `light-dark`. */
function colorOf(pen: CanvasRenderingContext2D, styles: CSSStyleDeclaration, name: string): string {
  const probe = pen.canvas.parentElement!;
  probe.style.setProperty("color", `var(${name})`);
  const color = getComputedStyle(probe).color;
  probe.style.removeProperty("color");
  return color || styles.color;
}

function isDarkGround(pen: CanvasRenderingContext2D, styles: CSSStyleDeclaration): boolean {
  const [red = 255] = (/\d+/.exec(colorOf(pen, styles, "--ground")) ?? []).map(Number);
  return red < 128;
}

function fitted(pen: CanvasRenderingContext2D, text: string, width: number): string {
  if (pen.measureText(text).width <= width) return text;
  let cut = text.slice(0, 60);
  while (cut.length > 1 && pen.measureText(`${cut}…`).width > width) cut = cut.slice(0, -1);
  return `${cut}…`;
}
