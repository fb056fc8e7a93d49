import { DecayScale } from "./decay.ts";

export interface SketchOptions {
  /** Number of partitions followed by name. */
  readonly followedMax?: number;
  readonly halfLifeMs?: number;
}

/** A partition followed by name. Amounts are in the sketch's scale: see `perSecond`. */
export interface Followed {
  readonly name: string;
  /** Entities counted: never less than the truth, and at most `excess` more. */
  load: number;
  /** The most of `load` that may belong to other partitions. */
  excess: number;
  /** Counted since the partition is followed. */
  read: number;
  written: number;
  scanned: number;
}

interface Ranked extends Followed {
  /** `load` when last placed in the heap: never more than it is now. */
  placed: number;
}

/** 2^16 columns by 4 rows of doubles are 2 MiB, whatever the number of partitions. */
const COLUMNS = 2 ** 16;
const ROWS = 4;
const FOLLOWED_MAX = 1024;
const HALF_LIFE_MS = 60_000;

/**
 * Finds the partitions that carry the load, in fixed memory. The heaviest are followed by name
 * (space-saving); all others share counters (count-min). A partition that is not followed takes the place of
 * the lightest followed one when its estimate exceeds that one's load, which then returns to the counters.
 *
 * Guarantees, with n the load that was counted while its partition was not followed:
 * - `estimate` is never less than the truth;
 * - it is at most e·n/2^16 more, that is 0.0042 % of n, for each partition with probability 1 - e^-4 (98 %);
 * - no partition that is not followed carries more than the lightest followed one.
 */
export class PartitionSketch {
  readonly scale: DecayScale;
  readonly #followedMax: number;
  readonly #cells = new Float64Array(ROWS * COLUMNS);
  readonly #followed = new Map<string, Ranked>();
  /** A heap by `placed`, smallest first; entries are corrected only when they reach the top. */
  readonly #heap: Ranked[] = [];
  #total = 0;
  #across = 0;

  constructor(now: number, options: SketchOptions = {}) {
    this.scale = new DecayScale(options.halfLifeMs ?? HALF_LIFE_MS, now);
    this.#followedMax = options.followedMax ?? FOLLOWED_MAX;
  }

  /** The load of all single partitions, exact. */
  get total(): number {
    return this.#total;
  }

  /** The load of reads across partitions, exact. */
  get across(): number {
    return this.#across;
  }

  addAcross(entities: number, now: number): void {
    this.#across += entities * this.#weightAt(now);
  }

  /** Counts entities for a partition. Returns its record if it is followed, for further counts. */
  add(name: string, entities: number, now: number): Followed | undefined {
    const amount = entities * this.#weightAt(now);
    this.#total += amount;
    const known = this.#followed.get(name);
    if (known) {
      known.load += amount;
      return known;
    }
    if (this.#heap.length < this.#followedMax) return this.#follow(name, amount, 0);
    const before = this.#estimateOf(name);
    const least = this.#least();
    if (before + amount <= least.load) {
      this.#addToCells(name, amount);
      return undefined;
    }
    this.#unfollow(least);
    return this.#follow(name, before + amount, before);
  }

  /** Never less than the truth; see above for how much more. In the sketch's scale. */
  estimate(name: string): number {
    return this.#followed.get(name)?.load ?? this.#estimateOf(name);
  }

  /** The followed partitions, heaviest first. */
  heaviest(count: number): Followed[] {
    return [...this.#followed.values()].sort((a, b) => b.load - a.load).slice(0, count);
  }

  /** Whether there are partitions that may not be followed. */
  get isFull(): boolean {
    return this.#heap.length >= this.#followedMax;
  }

  perSecond(amount: number, now: number): number {
    return this.scale.perSecond(amount, now);
  }

  #follow(name: string, load: number, excess: number): Followed {
    const ranked = { name, load, excess, read: 0, written: 0, scanned: 0, placed: load };
    this.#followed.set(name, ranked);
    this.#heap.push(ranked);
    siftUp(this.#heap);
    return ranked;
  }

  #unfollow(least: Ranked): void {
    this.#followed.delete(least.name);
    const last = this.#heap.pop()!;
    if (last !== least) {
      this.#heap[0] = last;
      siftDown(this.#heap);
    }
    // The excess is in the counters already.
    this.#addToCells(least.name, least.load - least.excess);
  }

  #least(): Ranked {
    for (;;) {
      const top = this.#heap[0]!;
      if (top.placed === top.load) return top;
      top.placed = top.load;
      siftDown(this.#heap);
    }
  }

  #estimateOf(name: string): number {
    hash(name);
    let least = Number.POSITIVE_INFINITY;
    for (let row = 0; row < ROWS; row++) {
      const cell = this.#cells[cellOf(row)]!;
      if (cell < least) least = cell;
    }
    return least;
  }

  #addToCells(name: string, amount: number): void {
    hash(name);
    for (let row = 0; row < ROWS; row++) {
      const at = cellOf(row);
      this.#cells[at] = this.#cells[at]! + amount;
    }
  }

  #weightAt(now: number): number {
    const weight = this.scale.weightAt(now);
    const factor = this.scale.rescale();
    if (factor === undefined) return weight;
    for (let i = 0; i < this.#cells.length; i++) this.#cells[i] = this.#cells[i]! * factor;
    for (const each of this.#heap) {
      each.load *= factor;
      each.placed *= factor;
      each.excess *= factor;
      each.read *= factor;
      each.written *= factor;
      each.scanned *= factor;
    }
    this.#total *= factor;
    this.#across *= factor;
    return 1;
  }
}

/** Two hashes of the last name, which rows combine. Variables save an object per request. */
let first = 0;
let second = 0;

function hash(name: string): void {
  let a = 0x811c9dc5;
  let b = 0x9747b28c;
  for (let i = 0; i < name.length; i++) {
    const unit = name.charCodeAt(i);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul(b ^ unit, 0x5bd1e995);
    b ^= b >>> 15;
  }
  first = mix(a);
  second = mix(b) | 1;
}

function mix(bits: number): number {
  let mixed = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}

function cellOf(row: number): number {
  return row * COLUMNS + ((first + Math.imul(row, second)) & (COLUMNS - 1));
}

function siftUp(heap: Ranked[]): void {
  let at = heap.length - 1;
  const moved = heap[at]!;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (heap[parent]!.placed <= moved.placed) break;
    heap[at] = heap[parent]!;
    at = parent;
  }
  heap[at] = moved;
}

function siftDown(heap: Ranked[]): void {
  const moved = heap[0]!;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && heap[child + 1]!.placed < heap[child]!.placed) child++;
    if (heap[child]!.placed >= moved.placed) break;
    heap[at] = heap[child]!;
    at = child;
  }
  heap[at] = moved;
}
