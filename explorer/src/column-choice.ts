import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Cell, Row } from "./entities.ts";

export const KEYS = ["PartitionKey", "RowKey"];
const DEFAULT_WIDTH = 168;
const NARROW_WIDTH = 96;
export const WIDTH_MIN = 64;
const WIDTH_MAX = 1200;

/** Rows that have the same properties. */
export interface Shape {
  readonly id: string;
  readonly name: string;
  readonly count: number;
  readonly properties: readonly string[];
}

export interface Sort {
  readonly property: string;
  readonly descending: boolean;
}

interface Remembered {
  readonly hidden: readonly string[];
  readonly widths: Readonly<Record<string, number>>;
}

/**
 * Which columns of a table are shown, how wide, and which of the rows that were read, in which order. Columns are
 * remembered in this browser, per account and table.
 */
export class ColumnChoice {
  readonly hidden: Signal<ReadonlySet<string>>;
  readonly widths: Signal<Readonly<Record<string, number>>>;
  /** Every property seen, in the order of appearance; Timestamp last. */
  readonly known = signal<readonly string[]>([]);
  /** Types seen, by property. */
  readonly types = signal<ReadonlyMap<string, string>>(new Map());
  readonly shapes = signal<readonly Shape[]>([]);
  readonly shape = signal<string | undefined>(undefined);
  readonly sort = signal<Sort | undefined>(undefined);
  /** Whether the server is asked for the shown columns alone. */
  readonly projects = signal(false);
  readonly shown: ReadonlySignal<readonly string[]>;
  readonly #key: string;
  readonly #counts = new Map<string, number>();

  constructor(table: string) {
    this.#key = `rowhouse.columns.${table}`;
    const { hidden, widths } = restored(this.#key);
    this.hidden = signal(new Set(hidden));
    this.widths = signal(widths);
    this.shown = computed(() => [
      ...KEYS,
      ...this.known.value.filter((name) => !this.hidden.value.has(name)),
    ]);
  }

  /** The properties of `$select`; empty for all. */
  get projection(): readonly string[] {
    return this.projects.value ? this.shown.value : [];
  }

  widthOf(name: string): number {
    const type = this.types.value.get(name) ?? "";
    return this.widths.value[name] ?? (NARROW.has(type) ? NARROW_WIDTH : DEFAULT_WIDTH);
  }

  setWidth(name: string, width: number): void {
    const kept = Math.round(Math.min(Math.max(width, WIDTH_MIN), WIDTH_MAX));
    this.widths.value = { ...this.widths.value, [name]: kept };
    this.#remember();
  }

  toggle(name: string): void {
    const hidden = new Set(this.hidden.value);
    if (!hidden.delete(name)) hidden.add(name);
    this.hidden.value = hidden;
    this.#remember();
  }

  clearRowChoices(): void {
    this.#counts.clear();
    this.shapes.value = [];
    this.shape.value = undefined;
    this.sort.value = undefined;
  }

  /** Takes note of the properties of rows that were read. */
  learn(rows: readonly Row[]): void {
    const known = new Set(this.known.value);
    const types = new Map(this.types.value);
    const before = known.size;
    for (const row of rows) {
      for (const [name, { type }] of row.cells) {
        known.add(name);
        const seen = types.get(name);
        if (seen === undefined) types.set(name, type);
        else if (seen !== type) types.set(name, "mixed");
      }
      const id = shapeOf(row);
      this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
    }
    if (known.size !== before) {
      known.delete("Timestamp");
      this.known.value = [...known, "Timestamp"];
    }
    this.types.value = types;
    this.shapes.value = namedShapes(this.#counts);
  }

  /** After rows were changed. */
  learnAnew(rows: readonly Row[]): void {
    this.#counts.clear();
    this.learn(rows);
  }

  /** The rows to show, of those that were read. */
  arrange(rows: readonly Row[]): readonly Row[] {
    const shape = this.shape.value;
    const sort = this.sort.value;
    const some = shape === undefined ? rows : rows.filter((row) => shapeOf(row) === shape);
    if (!sort) return some;
    const { property, descending } = sort;
    const sign = descending ? -1 : 1;
    return [...some].sort((a, b) => sign * compare(cellOf(a, property), cellOf(b, property)));
  }

  #remember(): void {
    const remembered = { hidden: [...this.hidden.value], widths: this.widths.value };
    localStorage.setItem(this.#key, JSON.stringify(remembered));
  }
}

function restored(key: string): Remembered {
  try {
    const { hidden, widths } = JSON.parse(localStorage.getItem(key) ?? "") as Remembered;
    return { hidden: [...hidden], widths: { ...widths } };
  } catch {
    return { hidden: ["Timestamp"], widths: {} };
  }
}

export function cellOf(row: Row, property: string): Cell | undefined {
  if (property === "PartitionKey") return { type: "Edm.String", text: row.partitionKey };
  if (property === "RowKey") return { type: "Edm.String", text: row.rowKey };
  return row.cells.get(property);
}

const shapesOfRows = new WeakMap<Row, string>();

export function shapeOf(row: Row): string {
  let shape = shapesOfRows.get(row);
  if (shape === undefined) {
    shape = [...row.cells.keys()]
      .filter((name) => name !== "Timestamp")
      .sort()
      .join("\n");
    shapesOfRows.set(row, shape);
  }
  return shape;
}

const SHAPES_SHOWN = 8;

/** A shape is named by a property that the others lack, where there is one. */
function namedShapes(counts: ReadonlyMap<string, number>): Shape[] {
  const all = [...counts].sort(([, a], [, b]) => b - a).slice(0, SHAPES_SHOWN);
  const sets = all.map(([id]) => id.split("\n").filter(Boolean));
  return all.map(([id, count], i) => {
    const properties = sets[i]!;
    const others = new Set(sets.flatMap((each, j) => (i === j ? [] : each)));
    const own = properties.find((name) => !others.has(name));
    const name = own ?? (properties.length === 0 ? "keys only" : `${properties.length} properties`);
    return { id, name, count, properties };
  });
}

const NARROW = new Set(["Edm.Int32", "Edm.Double", "Edm.Boolean"]);
const NUMBERS = new Set(["Edm.Int32", "Edm.Int64", "Edm.Double"]);

/** Absent last; numbers before everything else, and by value. */
function compare(a: Cell | undefined, b: Cell | undefined): number {
  if (!a || !b) return a ? -1 : b ? 1 : 0;
  const [isNumber, otherIsNumber] = [NUMBERS.has(a.type), NUMBERS.has(b.type)];
  if (isNumber !== otherIsNumber) return isNumber ? -1 : 1;
  if (!isNumber) return a.text < b.text ? -1 : a.text > b.text ? 1 : 0;
  if (a.type === "Edm.Int64" && b.type === "Edm.Int64") {
    const [x, y] = [BigInt(a.text), BigInt(b.text)];
    return x < y ? -1 : x > y ? 1 : 0;
  }
  return Number(a.text) - Number(b.text);
}
