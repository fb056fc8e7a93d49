import { LATE_MS_MAX } from "./decay.ts";
import { detachedString } from "./detached-string.ts";
import type { TimeSlot } from "./layered-slots.ts";

/** Queries by table, between two times in milliseconds since 1970. */
export interface ScanSlot extends TimeSlot {
  readonly queries: readonly (readonly [table: string, count: number])[];
}

/** A quarter of an hour: in every time zone, midnight is between two. */
const SLOT_MS = 900_000;
/** A day, which may last 25 hours, and the slot that has begun. */
const SLOTS_MAX = 101;
/** Of a slot. Scans of further ones are not counted. */
const TABLES_MAX = 256;

/** How many queries read across partitions since yesterday, by table. */
export class ScanCounts {
  readonly #slots: { readonly begin: number; readonly queries: Map<string, number> }[] = [];

  /** @param table as `account/table` */
  add(table: string, now: number): void {
    let slot = this.#slots.at(-1);
    // After the clock was set back, the slots lie in the future.
    if (slot && now < slot.begin - LATE_MS_MAX) {
      this.#slots.length = 0;
      slot = undefined;
    }
    if (!slot || now >= slot.begin + SLOT_MS) {
      slot = { begin: now - (now % SLOT_MS), queries: new Map() };
      if (this.#slots.push(slot) > SLOTS_MAX) this.#slots.shift();
    }
    const { queries } = slot;
    const known = queries.get(table);
    if (known !== undefined) queries.set(table, known + 1);
    else if (queries.size < TABLES_MAX) queries.set(detachedString(table), 1);
  }

  /** In the order of time, of tables that begin with `prefix`, which is left out. */
  history(prefix: string): ScanSlot[] {
    return this.#slots.flatMap(({ begin, queries }) => {
      const own = [...queries].flatMap(([table, count]) =>
        table.startsWith(prefix) ? [[table.slice(prefix.length), count] as const] : [],
      );
      return own.length === 0 ? [] : [{ begin, end: begin + SLOT_MS, queries: own }];
    });
  }
}
