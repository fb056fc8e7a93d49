import { readFileSync } from "node:fs";

/**
 * Holds each process to a share of a core, as a container's limit does: a process that has used more than its
 * share is stopped until enough time has passed. A few cores can then show the effect of many: the limited
 * process is the bottleneck, whatever else shares the machine. Linux only.
 */
export class CpuQuota {
  readonly #held: Held[];
  readonly #timer: NodeJS.Timeout;

  constructor(pids: readonly number[], share: number) {
    this.#held = pids.map((pid) => new Held(pid, share));
    this.#timer = setInterval(() => {
      for (const each of this.#held) each.judge();
    }, 1);
  }

  end(): void {
    clearInterval(this.#timer);
    for (const each of this.#held) each.go();
  }
}

/** Unused time expires, so that no process saves up for a burst. */
const SAVED_MS_MAX = 20;

class Held {
  readonly #pid: number;
  readonly #share: number;
  #usedMs: number;
  #at = performance.now();
  /** Milliseconds of processor time left to use; negative: overdrawn. */
  #creditMs = 0;
  #isStopped = false;

  constructor(pid: number, share: number) {
    this.#pid = pid;
    this.#share = share;
    this.#usedMs = mainThreadMs(pid);
  }

  judge(): void {
    const now = performance.now();
    const usedMs = mainThreadMs(this.#pid);
    this.#creditMs += (now - this.#at) * this.#share - (usedMs - this.#usedMs);
    this.#creditMs = Math.min(this.#creditMs, SAVED_MS_MAX * this.#share);
    this.#at = now;
    this.#usedMs = usedMs;
    if (this.#creditMs < 0 && !this.#isStopped) {
      this.#isStopped = true;
      process.kill(this.#pid, "SIGSTOP");
    } else if (this.#creditMs >= 0) {
      this.go();
    }
  }

  go(): void {
    if (this.#isStopped) process.kill(this.#pid, "SIGCONT");
    this.#isStopped = false;
  }
}

/** In nanoseconds, where `/proc/PID/stat` counts hundredths of a second. */
function mainThreadMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, "latin1").split(" ")[0]) / 1e6;
}
