import { after, isBefore, type KeyPosition, type KeyRead, type Plan } from "./plan.ts";

/**
 * How the entities of a table are spread over its keys, as one walk counted them. Every count is exact for what was
 * walked; a walk that reached its limit ended before the end of the table.
 */
export interface TableSketch {
  /** When it was walked, in milliseconds since 1970. */
  readonly at: number;
  /** Whether the walk reached the end of the table. */
  readonly complete: boolean;
  readonly entities: number;
  readonly partitions: number;
  /** Of stored records. */
  readonly bytes: number;
  /** The partition with the most entities; undefined in an empty table. */
  readonly largest: { readonly partitionKey: string; readonly entities: number } | undefined;
  /** In key order; together they hold every entity that was walked. */
  readonly steps: readonly SketchStep[];
}

/** Entities that follow each other: from this key on. */
export interface SketchStep extends KeyPosition {
  readonly entities: number;
  /** Of the last of them. */
  readonly lastPartitionKey: string;
}

type GrowingStep = { -readonly [Name in keyof SketchStep]: SketchStep[Name] };

/** How many entities a plan would read. */
export interface ReadEstimate {
  /** The least and the most that the sketch allows. `most` is undefined where the walk did not reach. */
  readonly least: number;
  readonly most: number | undefined;
  /** The best guess in between. */
  readonly likely: number;
}

export const SKETCH_STEPS_MAX = 1024;

/** Makes a sketch of entities that are added in key order, in bounded memory. */
export class SketchBuilder {
  #steps: GrowingStep[] = [];
  /** A step with this many entities is full. */
  #full = 16;
  #entities = 0;
  #partitions = 0;
  #bytes = 0;
  #inPartition = 0;
  #partitionKey = "";
  #largest: TableSketch["largest"];

  get entities(): number {
    return this.#entities;
  }

  /** @param position called only where a step begins or a partition: decoding every key would take most of the time */
  add(beginsPartition: boolean, position: () => KeyPosition, bytes: number): void {
    const last = this.#steps.at(-1);
    if (beginsPartition || last === undefined || last.entities >= this.#full) {
      const { partitionKey, rowKey } = position();
      if (beginsPartition) {
        this.#partitions++;
        this.#endPartition();
        this.#partitionKey = partitionKey;
      }
      if (this.#steps.length >= SKETCH_STEPS_MAX) this.#merge();
      this.#steps.push({ partitionKey, rowKey, entities: 1, lastPartitionKey: partitionKey });
    } else last.entities++;
    this.#entities++;
    this.#inPartition++;
    this.#bytes += bytes;
  }

  finish(at: number, complete: boolean): TableSketch {
    this.#endPartition();
    return {
      ...{ at, complete, entities: this.#entities, partitions: this.#partitions },
      ...{ bytes: this.#bytes, largest: this.#largest, steps: this.#steps },
    };
  }

  #endPartition(): void {
    if (this.#inPartition > (this.#largest?.entities ?? 0))
      this.#largest = { partitionKey: this.#partitionKey, entities: this.#inPartition };
    this.#inPartition = 0;
  }

  /** Joins small neighbours until a quarter of the steps is free; a large partition begins with a step of its own. */
  #merge(): void {
    for (;;) {
      const merged: GrowingStep[] = [];
      for (const step of this.#steps) {
        const last = merged.at(-1);
        if (last && last.entities + step.entities <= this.#full) {
          last.entities += step.entities;
          last.lastPartitionKey = step.lastPartitionKey;
        } else merged.push(step);
      }
      this.#steps = merged;
      if (merged.length <= SKETCH_STEPS_MAX * 0.75) return;
      this.#full *= 2;
    }
  }
}

/** How many entities a plan reads, by a sketch of its table. */
export function estimateReads({ reads }: Plan, sketch: TableSketch): ReadEstimate {
  const sum = { least: 0, likely: 0, most: 0 };
  let isBounded = true;
  for (const read of reads) {
    const { least, likely, most } = estimateRead(read, sketch);
    sum.least += least;
    sum.likely += likely;
    if (most === undefined) isBounded = false;
    else sum.most += most;
  }
  return { ...sum, likely: Math.round(sum.likely), most: isBounded ? sum.most : undefined };
}

function estimateRead(read: KeyRead, { steps, complete }: TableSketch): ReadEstimate {
  if (read.kind === "point") return { least: 0, most: 1, likely: 1 };
  const { start, end } = read;
  const sum = { least: 0, likely: 0, most: 0 };
  for (let i = 0; i < steps.length; i++) {
    const step = steps[i]!;
    const stepEnd = endOfStep(steps, i);
    if (!isBefore(start, stepEnd)) continue;
    if (!isBefore(step, end)) break;
    const isWhole = !isBefore(step, start) && (end === undefined || !isBefore(end, stepEnd));
    if (isWhole) sum.least += step.entities;
    sum.likely += isWhole ? step.entities : step.entities / 2;
    sum.most += step.entities;
  }
  // A walk that ended early got at least to where its last step begins.
  const walked = steps.at(-1);
  const isKnown = complete || (end !== undefined && walked !== undefined && !isBefore(walked, end));
  return { ...sum, most: isKnown ? sum.most : undefined };
}

/** The first position after a step that can hold an entity of another. */
function endOfStep(steps: readonly SketchStep[], i: number): KeyPosition {
  const { lastPartitionKey } = steps[i]!;
  const next = steps[i + 1];
  if (next?.partitionKey === lastPartitionKey) return next;
  return { partitionKey: after(lastPartitionKey), rowKey: "" };
}

/** Where each read lies among the entities that were walked: fractions from 0 to 1, for drawing. */
export function placesOf(
  { reads }: Plan,
  { steps, entities }: TableSketch,
): readonly { readonly from: number; readonly to: number }[] {
  const placeOf = (position: KeyPosition | undefined) => {
    if (position === undefined) return 1;
    let before = 0;
    for (let i = 0; i < steps.length; i++) {
      const step = steps[i]!;
      if (!isBefore(step, position)) break;
      before += isBefore(position, endOfStep(steps, i)) ? step.entities / 2 : step.entities;
    }
    return entities === 0 ? 0 : before / entities;
  };
  return reads.map((read) => {
    if (read.kind === "range") return { from: placeOf(read.start), to: placeOf(read.end) };
    const place = placeOf(read);
    return { from: place, to: place };
  });
}
