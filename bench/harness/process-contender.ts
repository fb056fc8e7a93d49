import type { BenchProcess } from "./bench-process.ts";
import type { Contender, Window, Work } from "./contender.ts";
import type { Figures } from "./figures.ts";
import { type Measurement, toMeasurement } from "./measurement.ts";
import { privateMemoryMb } from "./process-figures.ts";

/** A limit that needs no load generator: its process does the work and measures itself. */
export abstract class ProcessContender<Command> implements Contender {
  abstract readonly name: string;
  readonly process: BenchProcess<Command, Figures>;

  constructor(process: BenchProcess<Command, Figures>) {
    this.process = process;
  }

  abstract prepare(work: Work): Promise<void>;
  protected abstract command(work: Work, window: Window): Command;

  async measure(work: Work, window: Window): Promise<Measurement> {
    const figures = await this.process.ask(this.command(work, window));
    return toMeasurement(figures, privateMemoryMb(this.process.pid));
  }

  pause(): void {
    this.process.signal("SIGSTOP");
  }

  resume(): void {
    this.process.signal("SIGCONT");
  }

  stop(): Promise<void> {
    return this.process.stop();
  }
}
