import type { RowhouseProcess } from "../support/rowhouse-process.ts";

/**
 * What is killed in the middle of the work. Where that is one worker, the others serve on, and clients
 * whose connections broke come back without knowing what became of their last requests.
 */
export type Victim = "everything" | "primary" | "worker";

/** The flags of a server that can lose one worker. */
export const TWO_WORKERS = ["--silent", "--workers", "2"];

/**
 * The kills in turn. A worker is killed only where all of them have served, as they have when a server begins:
 * where one cannot begin to serve, all end.
 */
export function victimOf(round: number): Victim {
  return (["worker", "everything", "worker", "primary"] as const)[round % 4]!;
}

/** Tells clients how far a round is: kills come after so many answers, not after so much time. */
export class Pace {
  /** Nobody begins anything more. */
  isOver = false;
  /** Who loses a connection now need not come back. */
  isLast = false;
  #answers = 0;
  #awaited = { answers: Number.POSITIVE_INFINITY, resolve: () => {} };

  answer(): void {
    if (++this.#answers >= this.#awaited.answers) this.#awaited.resolve();
  }

  /** Resolves once so many more requests were answered. */
  answered(count: number): Promise<void> {
    return new Promise((resolve) => {
      this.#awaited = { answers: this.#answers + count, resolve };
    });
  }
}

export interface Interruption {
  readonly server: RowhouseProcess;
  readonly victim: Victim;
  readonly answers: number;
  readonly random: () => number;
}

/**
 * Kills while clients are at work, after so many answers, and resolves when all of them have ended: when
 * the server is gone, or after as many answers more of what is left of it.
 */
export async function interrupt(
  { server, victim, answers, random }: Interruption,
  work: (pace: Pace) => Promise<unknown>,
): Promise<void> {
  const pace = new Pace();
  const done = work(pace);
  const answered = () => Promise.race([pace.answered(answers), done, hasEnded(server)]);
  try {
    await answered();
    if (victim === "worker") {
      const workers = server.workerPids();
      process.kill(workers[Math.floor(random() * workers.length)]!, "SIGKILL");
      await answered();
    } else {
      pace.isLast = true;
      if (victim === "primary") process.kill(server.pid, "SIGKILL");
      else await server.kill();
      await server.ended;
      await done;
    }
  } finally {
    pace.isOver = true;
  }
  await done;
}

async function hasEnded({ ended }: RowhouseProcess): Promise<never> {
  await ended;
  throw new Error("The server has ended, though none or one of its workers was killed.");
}
