import { BUILD_RATE } from "./index-build.ts";

/** What an index would be, from a sample of its table. */
export interface DryRun {
  /** As `rowhouse index create --key` takes it, with its types. */
  readonly key: string;
  /** The entities sampled, and whether they are all there are. */
  readonly entities: number;
  readonly isWhole: boolean;
  /** How many of them would have an entry, and how many of these are of another type than the key says. */
  readonly entries: number;
  readonly otherTypes: number;
  /** Different values of the whole key. */
  readonly values: number;
  /** The commonest of them, as it is written in the key, and its entries. */
  readonly commonest: { readonly value: string; readonly entries: number } | undefined;
  /** Of an average entry, with its key. */
  readonly entryBytes: number;
  /** At the usual rate, for as many entities as were sampled. */
  readonly buildSeconds: number;
}

/** Counts the entries of a sample. */
export class DryRunCounts {
  readonly #counts = new Map<string, number>();
  entities = 0;
  #entries = 0;
  #bytes = 0;
  #otherTypes = 0;

  /** @param value the values of its key, undefined if the entity would have no entry */
  add(value: string | undefined, bytes: number): void {
    this.entities++;
    if (value === undefined) return;
    this.#entries++;
    this.#bytes += bytes;
    if (MARKED.test(value)) this.#otherTypes++;
    this.#counts.set(value, (this.#counts.get(value) ?? 0) + 1);
  }

  result(key: string, isWhole: boolean): DryRun {
    let commonest: DryRun["commonest"];
    for (const [value, entries] of this.#counts) {
      if (entries > (commonest?.entries ?? 0)) commonest = { value, entries };
    }
    return {
      key,
      entities: this.entities,
      isWhole,
      entries: this.#entries,
      otherTypes: this.#otherTypes,
      values: this.#counts.size,
      commonest,
      entryBytes: Math.round(this.#bytes / Math.max(1, this.#entries)),
      buildSeconds: Math.ceil(this.entities / BUILD_RATE),
    };
  }
}

/** A part that begins with the marker of a type. */
const MARKED = /(?:^|!)~[a-z]/;
