import type { RawLmdbName } from "../contenders/raw-lmdb.ts";
import type { ServiceName } from "../load/request-writer.ts";
import type { Bench } from "./bench.ts";
import type { Comparison } from "./comparison.ts";
import type { Work } from "./contender.ts";

/** One file of `bench/`: what is asked, and how the answer is measured. */
export interface Question {
  readonly name: string;
  readonly asks: string;
  /** Default: tables. */
  readonly service?: ServiceName;
  run(bench: Bench): Promise<void>;
}

/** Work that Rowhouse does beside limits and peer, turn by turn. */
export interface Case extends Work {
  readonly name: string;
  readonly against: readonly Opponent[];
  /** Entities an operation reads or writes, where it is more than one. */
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

/** What a comparison should show. */
export interface Reach {
  readonly what: string;
  readonly value: (comparison: Comparison) => number;
  readonly atLeast?: number;
  readonly atMost?: number;
}
