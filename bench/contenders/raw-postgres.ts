import { BenchProcess } from "../harness/bench-process.ts";
import type { Window, Work } from "../harness/contender.ts";
import type { Figures } from "../harness/figures.ts";
import { ProcessContender } from "../harness/process-contender.ts";
import { TRANSACTION_ENTITIES } from "../load/requests.ts";
import type { WorkloadKind } from "../load/workload.ts";
import type { RawPostgresCommand, RawPostgresWork } from "./raw-postgres-process.ts";

/** `pg` alone, with statements prepared once: the same rows of the same table, without server or client. */
export class RawPostgres extends ProcessContender<RawPostgresCommand> {
  readonly name = "raw driver";
  readonly #url: string;
  #run = 0;

  private constructor(process: BenchProcess<RawPostgresCommand, Figures>, url: string) {
    super(process);
    this.#url = url;
  }

  static async start(url: string): Promise<RawPostgres> {
    const module = new URL("./raw-postgres-process.ts", import.meta.url);
    return new RawPostgres(await BenchProcess.start(module, "server"), url);
  }

  /** The contender it is compared with has created and filled the table. */
  async prepare(): Promise<void> {}

  protected command(work: Work, window: Window): RawPostgresCommand {
    return {
      ...window,
      url: this.#url,
      entities: work.dataset.entities,
      clients: work.connections,
      run: this.#run++,
      work: toRawWork(work.workload),
    };
  }
}

function toRawWork(workload: WorkloadKind): RawPostgresWork {
  switch (workload.kind) {
    case "point-query":
      return { kind: "read" };
    case "range-query":
      return { range: workload.rows };
    case "insert":
      return { insert: 1 };
    case "transaction":
      return { insert: TRANSACTION_ENTITIES };
    default:
      throw new Error(`The raw driver has nothing like ${workload.kind}.`);
  }
}
