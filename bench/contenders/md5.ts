import { BenchProcess } from "../harness/bench-process.ts";
import type { Window, Work } from "../harness/contender.ts";
import type { Figures } from "../harness/figures.ts";
import { ProcessContender } from "../harness/process-contender.ts";
import type { SumCommand } from "./md5-process.ts";

/** The time of the checksum alone, which an upload in one request is answered with. */
export class Md5Alone extends ProcessContender<SumCommand> {
  readonly name = "MD5 alone";

  private constructor(process: BenchProcess<SumCommand, Figures>) {
    super(process);
  }

  static async start(): Promise<Md5Alone> {
    const module = new URL("./md5-process.ts", import.meta.url);
    return new Md5Alone(await BenchProcess.start(module, "server"));
  }

  async prepare(): Promise<void> {}

  protected command({ workload }: Work, window: Window): SumCommand {
    if (workload.kind !== "upload") throw new Error(`${workload.kind} has no checksum.`);
    return { ...window, bytes: workload.bytes };
  }
}
