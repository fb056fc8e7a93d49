import type { RowhouseProcess } from "../support/rowhouse-process.ts";

/**
 * The processes that are killed during the work. If it is one worker, the others keep serving, and clients
 * whose connections broke reconnect without knowing the outcome of their last requests.
 */
export type Victim = "everything" | "primary" | "worker";

/** The flags of a server that can lose one worker. */
export const TWO_WORKERS = ["--silent", "--workers", "2"];

/**
 * Which processes are killed in each round. A worker is killed only after all workers have served, as they have
 * right after a start: if a worker cannot begin to serve, the whole server ends.
 */
export function victimOf(round: number): Victim {
  return (["worker", "everything", "worker", "primary"] as const)[round % 4]!;
}

/** Shows clients how far a round is: kills come after a number of answers, not after a time. */
export class Pace {
  /** Clients start no more requests. */
  isOver = false;
  /** A client that loses its connection need not reconnect. */
  isLast = false;
  #answers = 0;
  #awaited = { answers: Number.POSITIVE_INFINITY, resolve: () => {} };

  answer(): void {
    if (++this.#answers >= this.#awaited.answers) this.#awaited.resolve();
  }

  /** Resolves once this many more requests were answered. */
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
 * Kills processes while clients are at work, after this many answers, and resolves when all clients have ended:
 * when the server is gone or, if only a worker was killed, after as many answers again.
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
