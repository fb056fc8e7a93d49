import { BenchProcess } from "../harness/bench-process.ts";
import type { Window, Work } from "../harness/contender.ts";
import type { Figures } from "../harness/figures.ts";
import { ProcessContender } from "../harness/process-contender.ts";
import type { WriteCommand } from "./disk-write-process.ts";

/** The time that the disk needs to write and flush as many bytes as an upload has. */
export class DiskWrite extends ProcessContender<WriteCommand> {
  readonly name = "disk write";
  readonly #file: string;

  private constructor(process: BenchProcess<WriteCommand, Figures>, file: string) {
    super(process);
    this.#file = file;
  }

  static async start(file: string): Promise<DiskWrite> {
    const module = new URL("./disk-write-process.ts", import.meta.url);
    return new DiskWrite(await BenchProcess.start(module, "server"), file);
  }

  async prepare(): Promise<void> {}

  protected command({ workload }: Work, window: Window): WriteCommand {
    if (workload.kind !== "upload") throw new Error(`${workload.kind} writes no file.`);
    return { ...window, file: this.#file, bytes: workload.bytes };
  }
}
