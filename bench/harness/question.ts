import type { ServiceName } from "../load/request-writer.ts";
import type { Bench } from "./bench.ts";

/** One file of `bench/`: what is asked, and how the answer is measured. */
export interface Question {
  readonly name: string;
  readonly asks: string;
  /** Default: tables. */
  readonly service?: ServiceName;
  run(bench: Bench): Promise<void>;
}
