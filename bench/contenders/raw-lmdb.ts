import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { BenchProcess } from "../harness/bench-process.ts";
import type { Window, Work } from "../harness/contender.ts";
import type { Figures } from "../harness/figures.ts";
import { ProcessContender } from "../harness/process-contender.ts";
import { PARTITION_ENTITIES } from "../load/dataset.ts";
import { TRANSACTION_ENTITIES } from "../load/requests.ts";
import type { WorkloadKind } from "../load/workload.ts";
import type { RawCommand, RawWork } from "./raw-lmdb-process.ts";

/** With the binding's default, which copies what it reads, or without copying. */
export type RawLmdbName = "raw LMDB" | "raw LMDB, no copies";

/** The storage binding alone: the same reads and durable commits, without server or client. */
export class RawLmdb extends ProcessContender<RawCommand> {
  readonly name: RawLmdbName;
  readonly #folder: string;
  #run = 0;

  private constructor(
    name: RawLmdbName,
    process: BenchProcess<RawCommand, Figures>,
    folder: string,
  ) {
    super(process);
    this.name = name;
    this.#folder = folder;
  }

  static async start(name: RawLmdbName, folder: string): Promise<RawLmdb> {
    const module = new URL("./raw-lmdb-process.ts", import.meta.url);
    return new RawLmdb(name, await BenchProcess.start(module, "server"), folder);
  }

  /** The first command opens and fills the environment and measures nothing. */
  async prepare(work: Work): Promise<void> {
    mkdirSync(join(this.#folder, work.dataset.table), { recursive: true });
    await this.process.ask({
      ...this.command(work, { warmUpMs: 0, windowMs: 0 }),
      work: { kind: "read", rows: 1 },
    });
  }

  protected command(work: Work, window: Window): RawCommand {
    return {
      ...window,
      directory: join(this.#folder, work.dataset.table),
      entities: work.dataset.entities,
      copies: this.name === "raw LMDB",
      // Clients that contend for one entity can only commit one after the other.
      clients: work.workload.kind === "contended-update" ? 1 : work.connections,
      run: this.#run++,
      work: toRawWork(work.workload, work.dataset.entities),
    };
  }
}

function toRawWork(workload: WorkloadKind, entities: number): RawWork {
  switch (workload.kind) {
    case "point-query":
      return { kind: "read", rows: 1 };
    case "range-query":
      return { kind: "read", rows: workload.rows };
    case "partition-scan":
      return { kind: "read", rows: PARTITION_ENTITIES };
    case "table-scan":
      return { kind: "read", rows: entities };
    case "insert":
    case "put-message":
      return { kind: "commit", puts: 1, keys: "new" };
    case "transaction":
      return { kind: "commit", puts: TRANSACTION_ENTITIES, keys: "new" };
    case "append":
      return { kind: "append", logs: workload.blobs };
    case "receive-message":
      return { kind: "put and remove" };
    case "upsert":
    case "merge":
    case "conditional-update":
    case "contended-update":
      return { kind: "commit", puts: 1, keys: "existing" };
    default:
      throw new Error(`Raw LMDB has nothing like ${workload.kind}.`);
  }
}
