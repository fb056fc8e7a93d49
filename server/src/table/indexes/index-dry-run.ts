import { printLiteral } from "@rowhouse/protocol/filter-literal";
import { type IndexDefinition, printIndexKey } from "../../query/indexes/index-definition.ts";
import { type IndexValue, printValues } from "../../query/indexes/index-key.ts";
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
  /** The commonest of them, as filters have it, and its entries. */
  readonly commonest: { readonly value: string; readonly entries: number } | undefined;
  /** Of an average entry, with its key. */
  readonly entryBytes: number;
  /** At the usual rate, for as many entities as were sampled. */
  readonly buildSeconds: number;
}

/** Counts the entries of a sample. */
export class DryRunCounts {
  readonly #index: IndexDefinition;
  /** By the values as they are written in the key, which is short. */
  readonly #counts = new Map<string, { entries: number; readonly value: string }>();
  entities = 0;
  #entries = 0;
  #bytes = 0;
  #otherTypes = 0;

  constructor(index: IndexDefinition) {
    this.#index = index;
  }

  /** @param values of its key, undefined if the entity would have no entry */
  add(values: readonly (IndexValue | undefined)[] | undefined, bytes: number): void {
    this.entities++;
    if (values === undefined) return;
    this.#entries++;
    this.#bytes += bytes;
    const { parts } = this.#index;
    if (values.some((value, at) => value && value.type !== parts[at]!.type)) this.#otherTypes++;
    const code = printValues(this.#index, values);
    const counted = this.#counts.get(code);
    if (counted) counted.entries++;
    else this.#counts.set(code, { entries: 1, value: shown(values) });
  }

  result(isWhole: boolean): DryRun {
    let commonest: DryRun["commonest"];
    for (const counted of this.#counts.values()) {
      if (counted.entries > (commonest?.entries ?? 0)) commonest = counted;
    }
    return {
      key: printIndexKey(this.#index),
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

const SHOWN_LENGTH = 100;

function shown(values: readonly (IndexValue | undefined)[]): string {
  const text = values.map((value) => (value ? printLiteral(value) : "(missing)")).join(", ");
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text;
}
