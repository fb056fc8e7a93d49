import { Histogram } from "../load/histogram.ts";
import type { Window } from "./contender.ts";
import type { Figures } from "./figures.ts";
import { cpuMicros, machineCpuMicros } from "./process-figures.ts";

/** Measures a limit from inside its own process: a warm-up that is discarded, then the window. */
export class Stopwatch {
  readonly #window: Window;
  readonly #latencies = new Histogram();
  readonly #operations: number[];
  #startedAt = performance.now();
  #cpuBefore = 0;
  #machineCpuBefore = 0;
  #measuring = false;

  constructor(window: Window, clients: number) {
    this.#window = window;
    this.#operations = new Array<number>(clients).fill(0);
  }

  goesOn(): boolean {
    const elapsed = performance.now() - this.#startedAt;
    if (this.#measuring) return elapsed < this.#window.windowMs;
    if (elapsed >= this.#window.warmUpMs) {
      this.#measuring = true;
      this.#cpuBefore = cpuMicros(process.pid);
      this.#machineCpuBefore = machineCpuMicros();
      this.#startedAt = performance.now();
    }
    return true;
  }

  record(milliseconds: number, client: number): void {
    if (!this.#measuring) return;
    this.#latencies.record(milliseconds);
    this.#operations[client] = (this.#operations[client] ?? 0) + 1;
  }

  figures(): Figures {
    return {
      operations: this.#latencies.total,
      failures: 0,
      firstFailure: "",
      milliseconds: performance.now() - this.#startedAt,
      serverCpuMicros: cpuMicros(process.pid) - this.#cpuBefore,
      clientCpuMicros: 0,
      machineCpuMicros: machineCpuMicros() - this.#machineCpuBefore,
      latencies: this.#latencies.counts,
      fewest: Math.min(...this.#operations),
      most: Math.max(...this.#operations),
    };
  }
}
