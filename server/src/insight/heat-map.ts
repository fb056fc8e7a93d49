import { LATE_MS_MAX } from "./decay.ts";
import { detachedString } from "./detached-string.ts";
import { LAYERS, LayeredSlots, type TimeSlot } from "./layered-slots.ts";

/** Load by range of partition names and by time, ready to draw. */
export interface HeatMapData {
  readonly slotMs: number;
  /** When each column begins, in milliseconds since 1970; a time without load has no column. */
  readonly columns: readonly number[];
  /** Each row begins at its name and ends before the next one's. Rows hold about equally many samples. */
  readonly rows: readonly string[];
  /** Entities, by row and column: shares of a sample, scaled to each column's exact total. */
  readonly cells: readonly (readonly number[])[];
}

export interface Slot extends TimeSlot {
  total: number;
  /** 128 places, each of which holds a name with a probability equal to its share of the total. */
  readonly names: string[];
}

export interface HeatMapOptions {
  readonly slotMs?: number;
  readonly slotsMax?: number;
  readonly random?: () => number;
}

const SAMPLES = 128;
/** Longer names are cut: an axis shows no more. */
const NAME_LENGTH_MAX = 64;

/**
 * Load by name and time: for each slot, the exact total and a weighted sample of 128 names, which determines a range's
 * share to within about 9 points (two standard deviations at a share of 1/2). Ranges are chosen when the map is drawn.
 * The last quarter of an hour has slots of ten seconds, which `LAYERS` join to longer ones: some 340 slots of 128 names
 * of 64 characters, at most 6 MiB.
 */
export class HeatMap {
  readonly #slotMs: number;
  readonly #slotsMax: number;
  readonly #random: () => number;
  readonly #slots: LayeredSlots<Slot>;
  #current: Slot = { begin: Number.NEGATIVE_INFINITY, end: 0, total: 0, names: [] };

  constructor(options: HeatMapOptions = {}) {
    this.#slotMs = options.slotMs ?? LAYERS[0].slotMs;
    this.#slotsMax = options.slotsMax ?? LAYERS[0].slotsMax;
    this.#random = options.random ?? Math.random;
    const finest = { slotMs: this.#slotMs, slotsMax: this.#slotsMax };
    this.#slots = new LayeredSlots([finest, ...LAYERS.slice(1)], (into, from) => {
      into.total += from.total;
      // Each place keeps every name's share of both together.
      for (let i = 0; i < SAMPLES; i++)
        if (this.#random() * into.total < from.total) into.names[i] = from.names[i]!;
    });
  }

  add(name: string, entities: number, now: number): void {
    let slot = this.#current;
    const isSetBack = now < slot.begin - LATE_MS_MAX;
    // After the clock was set back, the recorded slots lie in the future.
    if (isSetBack) this.#slots.clear();
    if (isSetBack || now >= slot.begin + this.#slotMs) {
      const names = new Array<string>(SAMPLES).fill("");
      const begin = now - (now % this.#slotMs);
      slot = { begin, end: begin + this.#slotMs, total: 0, names };
      this.#current = slot;
      this.#slots.push(slot);
    }
    slot.total += entities;
    // This name gets as many places as keep every name's share; the first name of a slot gets them all.
    const places = Math.floor((SAMPLES * entities) / slot.total + this.#random());
    if (places > 0) this.#place(slot.names, name, places);
  }

  #place(names: string[], name: string, places: number): void {
    const own = detachedString(name.slice(0, NAME_LENGTH_MAX));
    for (let i = 0; i < places && i < SAMPLES; i++) {
      // A random place that was not yet taken: those taken are swapped to the front.
      const at = i + Math.floor(this.#random() * (SAMPLES - i));
      names[at] = names[i]!;
      names[i] = own;
    }
  }

  /** What `drawHeatMap` draws: the finest slots that are not too old. */
  part(now: number): HeatMapPart {
    const since = now - this.#slotsMax * this.#slotMs;
    return { slotMs: this.#slotMs, slots: this.#slots.finest.filter(({ begin }) => begin > since) };
  }

  /** Everything that is kept, in the order of time, of names that begin with `prefix`, which is left out. */
  history(prefix: string): NamedLoad[] {
    return this.#slots.all().flatMap(({ begin, end, total, names }) => {
      const places = new Map<string, number>();
      for (const name of names)
        if (name.startsWith(prefix)) places.set(name, (places.get(name) ?? 0) + 1);
      if (places.size === 0) return [];
      const entities = [...places].map(
        ([name, count]) =>
          [name.slice(prefix.length), Math.round((total * count) / SAMPLES)] as const,
      );
      return [{ begin, end, entities }];
    });
  }
}

/** Entities by name, estimated from a sample, between two times in milliseconds since 1970. */
export interface NamedLoad extends TimeSlot {
  readonly entities: readonly (readonly [name: string, entities: number])[];
}

export interface HeatMapPart {
  readonly slotMs: number;
  readonly slots: readonly Slot[];
}

/** Draws the heat maps of one or more processes, whose slots begin at the same times, as one. */
export function drawHeatMap(parts: readonly HeatMapPart[], rowsMax = 32): HeatMapData {
  const slots = parts.flatMap((part) => part.slots);
  const columns = [...new Set(slots.map(({ begin }) => begin))].sort((a, b) => a - b);
  const names = slots.flatMap((slot) => slot.names).sort(byUnits);
  const rows: string[] = [];
  for (let i = 0; i < rowsMax; i++) {
    const name = names[Math.floor((i * names.length) / rowsMax)];
    if (name !== undefined && name !== rows.at(-1)) rows.push(name);
  }
  const cells = rows.map(() => new Array<number>(columns.length).fill(0));
  for (const slot of slots) {
    const column = columns.indexOf(slot.begin);
    const share = slot.total / slot.names.length;
    for (const name of slot.names) {
      const row = Math.max(
        rows.findLastIndex((start) => start <= name),
        0,
      );
      cells[row]![column]! += share;
    }
  }
  return { slotMs: parts[0]?.slotMs ?? 0, columns, rows, cells: roundedColumns(cells) };
}

/** Rounds to whole numbers without changing the rounded sum of a column. */
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
