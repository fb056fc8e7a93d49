import { setMaxListeners } from "node:events";
import { EngineError } from "../engine.ts";
import { isTransient, type Outcome, toEngineError } from "./outcome.ts";
import { query } from "./query.ts";
import type { Session } from "./session.ts";
import type { ServerError } from "./sql-state.ts";
import { BUSY_BACKENDS } from "./statements.ts";

const BACKOFF_MS_MIN = 50;
const BACKOFF_MS_MAX = 1_000;

interface Waiter {
  readonly deadline: number;
  readonly resolve: (session: Session) => void;
  readonly reject: (error: Error) => void;
}

export interface SessionPoolOptions {
  readonly sessionsMax: number;
  /** The signal aborts when the pool is closed: no caller waits for the session any more. */
  readonly connect: (signal: AbortSignal) => Promise<Session>;
  readonly onCorrupt?: (error: ServerError) => void;
}

/**
 * Sessions lent to one borrower at a time. A session is opened when a borrower waits, and kept; the one
 * released last is lent first, so that few sessions serve when few are needed.
 *
 * While the database cannot be reached, borrowers wait up to their deadlines, and one connection attempt
 * after another is made for them. An error that only the operator can fix ends their waiting; later borrowers
 * wait for the next attempt, since such a server must not be asked on every request either.
 *
 * A session that was given up may not be over for the server: a COMMIT that waits for its standby goes on
 * waiting after its client has hung up. Until it is over it counts as a session. Otherwise the front ends of
 * a database whose standby is away would take all its connections, each 16 new ones per time limit of a call.
 */
export class SessionPool {
  readonly #options: SessionPoolOptions;
  readonly #idle: Session[] = [];
  readonly #all = new Set<Session>();
  readonly #waiters: Waiter[] = [];
  /** Server processes behind sessions that were given up, and when the last one was. */
  readonly #givenUp = new Set<number>();
  #gaveUpAt = 0;
  #connecting = 0;
  #backoffMs = 0;
  #backoffTimer: NodeJS.Timeout | undefined;
  #lastError: unknown;
  readonly #closing = new AbortController();

  constructor(options: SessionPoolOptions) {
    this.#options = options;
    // Each attempt adds a listener. Node warns the operator of a leak above ten.
    setMaxListeners(options.sessionsMax, this.#closing.signal);
  }

  /** @throws EngineError `Unavailable` if there is no session by `deadline`, `Closed` after `close`. */
  acquire(deadline: number): Session | Promise<Session> {
    if (this.#isClosed) throw closedError();
    const idle = this.#idle.pop();
    if (idle) return idle;
    const waiting = new Promise<Session>((resolve, reject) => {
      this.#waiters.push({ deadline, resolve, reject });
    });
    this.#grow();
    return waiting;
  }

  release(session: Session): void {
    if (session.isLost) return;
    if (this.#isClosed) {
      session.close();
      return;
    }
    const waiter = this.#waiters.shift();
    if (waiter) waiter.resolve(session);
    else this.#idle.push(session);
  }

  /**
   * Like `release`, unless the outcome shows that this session and its idle neighbours lead to a former primary.
   */
  releaseAfter(session: Session, outcome: Outcome): void {
    if (outcome.kind === "failed" && outcome.error.fault === "standby") {
      session.close();
      for (const idle of this.#idle.splice(0)) idle.close();
    }
    this.release(session);
  }

  /** Call it a few times a second. `now` as of `performance.now()`. */
  tick(now: number): void {
    let isSilent = false;
    for (const session of this.#all) isSilent = session.giveUpIfOverdue(now) || isSilent;
    // A machine that loses its power closes no connection. Each of the other sessions would cost another call
    // its whole time limit.
    if (isSilent) {
      for (const session of this.#all) {
        if (session.isQuiet) session.destroy(new Error("The database does not answer."));
      }
    }
    for (let index = this.#waiters.length - 1; index >= 0; index--) {
      const waiter = this.#waiters[index]!;
      if (now <= waiter.deadline) continue;
      this.#waiters.splice(index, 1);
      waiter.reject(this.#unavailable());
    }
  }

  close(): void {
    this.#closing.abort();
    clearTimeout(this.#backoffTimer);
    for (const waiter of this.#waiters.splice(0)) waiter.reject(closedError());
    for (const session of [...this.#all]) session.close();
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  #grow(): void {
    if (this.#backoffTimer !== undefined || this.#isClosed) return;
    // After a failure one attempt at a time: a server that is starting must not be flooded.
    const isTroubled = this.#backoffMs > 0 || this.#givenUp.size > 0;
    const attemptsMax = isTroubled ? 1 : Number.POSITIVE_INFINITY;
    while (
      this.#connecting < Math.min(this.#waiters.length, attemptsMax) &&
      this.#all.size + this.#connecting < this.#options.sessionsMax
    ) {
      this.#connecting++;
      void this.#connectOne();
    }
  }

  async #connectOne(): Promise<void> {
    try {
      const session = await this.#options.connect(this.#closing.signal);
      await this.#assertRoom(session);
      this.#connecting--;
      this.#backoffMs = 0;
      this.adopt(session);
    } catch (error) {
      this.#connecting--;
      this.#lastError = error;
      this.#backOff();
      if (!isTransient(error)) {
        for (const waiter of this.#waiters.splice(0)) waiter.reject(toEngineError(error));
      }
    }
    this.#grow();
  }

  /** Closes a session for which there is no room. @throws EngineError `Unavailable`. */
  async #assertRoom(session: Session): Promise<void> {
    if (this.#givenUp.size === 0) return;
    const asked = [...this.#givenUp];
    const agoMs = Math.floor(performance.now() - this.#gaveUpAt);
    const busy = new Set<number>();
    const parameters = [asked.join(), agoMs];
    await query(session, BUSY_BACKENDS, parameters, (row) => busy.add(row.int8())).catch(
      (error) => {
        // A server that cannot answer counts as having none; if the connection broke, nothing is known.
        if (session.isLost) throw error;
      },
    );
    for (const process of asked) if (!busy.has(process)) this.#givenUp.delete(process);
    if (this.#all.size + this.#givenUp.size < this.#options.sessionsMax) return;
    session.close();
    throw new EngineError(
      "Unavailable",
      `The database is still working for ${this.#givenUp.size} connections that were given up. Check whether its commits wait for a standby.`,
    );
  }

  /** Adds a session that was opened elsewhere. */
  adopt(session: Session): void {
    this.#all.add(session);
    session.onLost = () => this.#forget(session);
    if (this.#options.onCorrupt) session.onCorrupt = this.#options.onCorrupt;
    if (session.isLost) this.#forget(session);
    else this.release(session);
  }

  #forget(session: Session): void {
    this.#all.delete(session);
    if (session.isGivenUp && session.processId !== undefined) {
      this.#givenUp.add(session.processId);
      this.#gaveUpAt = performance.now();
    }
    const index = this.#idle.indexOf(session);
    if (index >= 0) this.#idle.splice(index, 1);
    this.#grow();
  }

  #backOff(): void {
    if (this.#backoffTimer !== undefined || this.#isClosed) return;
    const doubled = Math.min(BACKOFF_MS_MAX, Math.max(BACKOFF_MS_MIN, this.#backoffMs * 2));
    this.#backoffMs = doubled;
    this.#backoffTimer = setTimeout(
      () => {
        this.#backoffTimer = undefined;
        this.#grow();
      },
      doubled * (0.5 + Math.random() / 2),
    );
  }

  #unavailable(): Error {
    if (this.#lastError !== undefined && this.#backoffMs > 0) return toEngineError(this.#lastError);
    return new EngineError("Unavailable", "All connections to the database are in use.");
  }
}

function closedError(): EngineError {
  return new EngineError("Closed", "The PostgreSQL engine is closed.");
}
