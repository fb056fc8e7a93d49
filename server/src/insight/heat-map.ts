import { LATE_MS_MAX } from "./decay.ts";
import { ownText } from "./own-text.ts";

/** Load by range of partition names and by time, ready to be drawn. */
export interface HeatMapData {
  readonly slotMs: number;
  /** When each column begins, milliseconds since 1970; there is none for a time without load. */
  readonly columns: readonly number[];
  /** Each begins at its name and ends before the next one's; ranges carried alike at first. */
  readonly rows: readonly string[];
  /** Entities, by row and column: shares of a sample of each column's exact total. */
  readonly cells: readonly (readonly number[])[];
}

interface Slot {
  readonly begin: number;
  total: number;
  /** 128 places: each holds a name with the chance of its share of the total. */
  readonly names: string[];
}

export interface HeatMapOptions {
  readonly slotMs?: number;
  readonly slotsMax?: number;
  readonly random?: () => number;
}

const SAMPLES = 128;
/** Longer names are cut; nobody reads more on an axis. */
const NAME_LENGTH_MAX = 64;

/**
 * The last quarter of an hour: for each slot of ten seconds the exact total and a weighted sample of
 * 128 names, which places a range's share within about 9 points (two standard deviations of 1/2).
 * Ranges are chosen when someone looks. At most 90 slots of 128 names of 64 characters: 1.5 MiB.
 */
export class HeatMap {
  readonly #slotMs: number;
  readonly #slotsMax: number;
  readonly #random: () => number;
  readonly #slots: Slot[] = [];
  #current: Slot = { begin: Number.NEGATIVE_INFINITY, total: 0, names: [] };

  constructor(options: HeatMapOptions = {}) {
    this.#slotMs = options.slotMs ?? 10_000;
    this.#slotsMax = options.slotsMax ?? 90;
    this.#random = options.random ?? Math.random;
  }

  add(name: string, entities: number, now: number): void {
    let slot = this.#current;
    const isSetBack = now < slot.begin - LATE_MS_MAX;
    // Times that are still to come have no column.
    if (isSetBack) this.#slots.length = 0;
    if (isSetBack || now >= slot.begin + this.#slotMs) {
      const names = new Array<string>(SAMPLES).fill("");
      slot = { begin: now - (now % this.#slotMs), total: 0, names };
      this.#current = slot;
      this.#slots.push(slot);
      if (this.#slots.length > this.#slotsMax) this.#slots.shift();
    }
    slot.total += entities;
    // So many places are given to this name as keep its share; the first of a slot takes all.
    const places = Math.floor((SAMPLES * entities) / slot.total + this.#random());
    if (places > 0) this.#place(slot.names, name, places);
  }

  #place(names: string[], name: string, places: number): void {
    const own = ownText(name.slice(0, NAME_LENGTH_MAX));
    for (let i = 0; i < places && i < SAMPLES; i++) {
      // Places are taken at random, and none twice: those that were stand in front.
      const at = i + Math.floor(this.#random() * (SAMPLES - i));
      names[at] = names[i]!;
      names[i] = own;
    }
  }

  data(rowsMax: number, now: number): HeatMapData {
    const since = now - this.#slotsMax * this.#slotMs;
    const slots = this.#slots.filter(({ begin }) => begin > since);
    const names = slots.flatMap((slot) => slot.names).sort(byUnits);
    const rows: string[] = [];
    for (let i = 0; i < rowsMax; i++) {
      const name = names[Math.floor((i * names.length) / rowsMax)];
      if (name !== undefined && name !== rows.at(-1)) rows.push(name);
    }
    const cells = rows.map(() => new Array<number>(slots.length).fill(0));
    for (const [column, slot] of slots.entries()) {
      const share = slot.total / slot.names.length;
      for (const name of slot.names) {
        const row = Math.max(
          rows.findLastIndex((start) => start <= name),
          0,
        );
        cells[row]![column]! += share;
      }
    }
    return {
      slotMs: this.#slotMs,
      columns: slots.map(({ begin }) => begin),
      rows,
      cells: roundedColumns(cells),
    };
  }
}

/** Whole numbers whose columns have the sums that they had. */
function roundedColumns(cells: readonly (readonly number[])[]): number[][] {
  const above: number[] = [];
  return cells.map((row) =>
    row.map((cell, column) => {
      const before = above[column] ?? 0;
      above[column] = before + cell;
      return Math.round(before + cell) - Math.round(before);
    }),
  );
}

function byUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
