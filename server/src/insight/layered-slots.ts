/** A time with something counted in it, in milliseconds since 1970. */
export interface TimeSlot {
  readonly begin: number;
  /** Where the next may begin. */
  end: number;
}

interface Layer {
  readonly slotMs: number;
  readonly slotsMax: number;
}

/**
 * The older, the coarser: ten seconds for a quarter of an hour, a minute for an hour and a half, ten minutes for a third of
 * a day, an hour for two days, four hours for twelve days; longer where there are times without load, which have no slots.
 */
export const LAYERS = [
  { slotMs: 10_000, slotsMax: 90 },
  { slotMs: 60_000, slotsMax: 75 },
  { slotMs: 600_000, slotsMax: 48 },
  { slotMs: 3_600_000, slotsMax: 48 },
  { slotMs: 14_400_000, slotsMax: 72 },
] as const satisfies readonly Layer[];

/**
 * Slots of time in layers: what a full layer drops is joined to the next one's. A joined slot spans only the slots that it
 * consists of, so a rate divides by the time in which something was counted, and slots never overlap.
 */
export class LayeredSlots<Slot extends TimeSlot> {
  readonly #layers: readonly (Layer & { readonly slots: Slot[] })[];
  readonly #join: (into: Slot, from: Slot) => void;

  /** @param join adds to a slot what a later one counted */
  constructor(layers: readonly Layer[], join: (into: Slot, from: Slot) => void) {
    this.#layers = layers.map((layer) => ({ ...layer, slots: [] }));
    this.#join = join;
  }

  push(slot: Slot): void {
    let dropped: Slot | undefined = slot;
    for (const { slotMs, slotsMax, slots } of this.#layers) {
      if (!dropped) return;
      const last = slots.at(-1);
      const isOfLast =
        last !== undefined &&
        slots !== this.#layers[0]!.slots &&
        Math.floor(last.begin / slotMs) === Math.floor(dropped.begin / slotMs);
      if (isOfLast) {
        this.#join(last, dropped);
        last.end = dropped.end;
        return;
      }
      slots.push(dropped);
      dropped = slots.length > slotsMax ? slots.shift() : undefined;
    }
  }

  get finest(): readonly Slot[] {
    return this.#layers[0]!.slots;
  }

  /** From the oldest to the newest. */
  all(): Slot[] {
    return this.#layers.toReversed().flatMap(({ slots }) => slots);
  }

  clear(): void {
    for (const { slots } of this.#layers) slots.length = 0;
  }
}
