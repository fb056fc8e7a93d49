import type { ServiceName } from "../load/request-writer.ts";
import type { Bench } from "./bench.ts";

/** One file of `bench/`: a question, and how its answer is measured. */
export interface Question {
  readonly name: string;
  readonly asks: string;
  /** Default: tables. */
  readonly service?: ServiceName;
  run(bench: Bench): Promise<void>;
}
