import type { RawLmdbName } from "../contenders/raw-lmdb.ts";
import type { Comparison } from "./comparison.ts";
import type { Work } from "./contender.ts";

/** Work that Rowhouse and its limits or peer do in turns. */
export interface Case extends Work {
  readonly name: string;
  readonly against: readonly Opponent[];
  /** Entities that one operation reads or writes, if more than one. */
  readonly rows?: number;
  readonly reaches?: readonly Reach[];
  /** Left out of the short form. */
  readonly longOnly?: boolean;
}

export type Opponent =
  | "bare node:http"
  | RawLmdbName
  | "disk flush"
  | "disk write"
  | "MD5 alone"
  | "azurite";

/** The ratio that a comparison should reach. */
export interface Reach {
  readonly what: string;
  readonly value: (comparison: Comparison) => number;
  readonly atLeast?: number;
  readonly atMost?: number;
}
