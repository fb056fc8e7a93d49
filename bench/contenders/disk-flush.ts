import { BenchProcess } from "../harness/bench-process.ts";
import type { Window, Work } from "../harness/contender.ts";
import type { Figures } from "../harness/figures.ts";
import { ProcessContender } from "../harness/process-contender.ts";
import type { FlushCommand } from "./disk-flush-process.ts";

/** The time of one flush of the disk: no durable write is faster. */
export class DiskFlush extends ProcessContender<FlushCommand> {
  readonly name = "disk flush";
  readonly #file: string;

  private constructor(process: BenchProcess<FlushCommand, Figures>, file: string) {
    super(process);
    this.#file = file;
  }

  static async start(file: string): Promise<DiskFlush> {
    const module = new URL("./disk-flush-process.ts", import.meta.url);
    return new DiskFlush(await BenchProcess.start(module, "server"), file);
  }

  async prepare(): Promise<void> {}

  protected command(_work: Work, window: Window): FlushCommand {
    return { ...window, file: this.#file };
  }
}
