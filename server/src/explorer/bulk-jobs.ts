import { randomUUID } from "node:crypto";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { Clock } from "../clock.ts";
import type { Engine, Entry, Key } from "../engine/engine.ts";
import { decodeText, encodeText, partitionRange } from "../engine/key-codec.ts";
import { scanToEnd } from "../engine/scan-to-end.ts";
import { type Ask, type BulkProgress, type BulkRequest, workInBulk } from "./bulk.ts";

/** "stopped": whoever worked on it ended, or was killed, and it waits to be resumed. */
export type JobState = "running" | "paused" | "stopped" | "failed" | "done";

/** A change to all entities that a filter finds, as it is stored. */
interface StoredJob extends Omit<BulkRequest, "isDryRun" | "next"> {
  readonly state: Exclude<JobState, "stopped">;
  /** Of whoever works on it: another one's is not changed by it any more. */
  readonly run: string;
  /** Until then it is being worked on. Milliseconds since 1970. */
  readonly heldUntil: number;
  readonly startedAt: number;
  /** How many entities there were when it was tried out. */
  readonly expected: number;
  readonly read: number;
  readonly changed: number;
  readonly leftAlone: number;
  /** How often it was resumed after its server ended: each time, one slice may be missing from the sums, or be twice. */
  readonly cutOff: number;
  readonly next: BulkRequest["next"];
  readonly failure?: BulkProgress["failure"];
}

/** A job as it is shown. */
export interface Job
  extends Omit<StoredJob, "state" | "run" | "heldUntil" | "next" | "merge" | "failure"> {
  readonly id: string;
  readonly state: JobState;
  /** The names of what it sets; undefined: it deletes. */
  readonly sets: readonly string[] | undefined;
  readonly failure?: BulkProgress["failure"];
}

export interface JobRequest extends Omit<BulkRequest, "isDryRun" | "next"> {
  readonly expected: number;
}

/** Who a job works for. */
export interface JobOwner {
  readonly account: string;
  readonly ask: Ask;
  /** The address of the account. */
  readonly base: string;
}

/** Of an account, at the same time. */
export const JOBS_RUNNING_MAX = 4;
/** Of an account, with those that wait and those that ended, the oldest of which are forgotten. */
export const JOBS_KEPT_MAX = 20;
const VERSION_DIGITS = 16;
/** Far longer than a slice, so it passes only for who is not there any more. */
const HELD_MS = 30_000;

/**
 * Changes in bulk that go on without the page that began them. A job is one entry of the engine: what to do, and where
 * the last slice ended. It is worked on by the process that began or resumed it, slice by slice, and each slice is
 * followed by a commit that asks whether the job is still its own: so any process over the same data can show, pause
 * and remove it. If its process ends, the job stops, and is resumed where it was when somebody says so: a server that
 * starts, perhaps over a copy of the data, deletes nothing by itself.
 */
export class BulkJobs {
  readonly #engine: Engine;
  readonly #clock: Clock;
  readonly #onError: (error: unknown) => void;
  /** Those that are worked on here. */
  readonly #runs = new Map<string, Promise<void>>();
  #closed = false;

  constructor(options: { engine: Engine; clock: Clock; onError: (error: unknown) => void }) {
    this.#engine = options.engine;
    this.#clock = options.clock;
    this.#onError = options.onError;
  }

  /** The newest first. */
  async list(account: string): Promise<Job[]> {
    const jobs: Job[] = [];
    for (const [id, job] of await this.#all(account)) jobs.push(this.#shown(id, job));
    return jobs.reverse();
  }

  /** @returns undefined if the account has as many running, or waiting, as it may */
  async begin(owner: JobOwner, wanted: JobRequest): Promise<Job | undefined> {
    const { account } = owner;
    const all = await this.#all(account);
    const running = all.filter(([id, job]) => this.#shown(id, job).state === "running");
    if (running.length >= JOBS_RUNNING_MAX) return undefined;
    const ended = all.filter(([, { state }]) => state === "done" || state === "failed");
    const tooMany = Math.max(0, all.length - JOBS_KEPT_MAX + 1);
    if (tooMany > ended.length) return undefined;
    for (const [id] of ended.slice(0, tooMany)) await this.remove(account, id);
    const now = this.#clock.now();
    // In the order in which they began. A version is never handed out twice.
    const version = this.#engine.nextVersion();
    const id = String(version).padStart(VERSION_DIGITS, "0");
    const job: StoredJob = {
      ...{ ...wanted, state: "running", run: randomUUID(), heldUntil: now + HELD_MS },
      ...{ startedAt: now, read: 0, changed: 0, leftAlone: 0, cutOff: 0, next: {} },
    };
    await this.#engine.commit({
      version,
      checks: [],
      puts: [{ key: keyOf(account, id), value: encode(job) }],
      deletes: [],
    });
    this.#work(owner, id, job);
    return this.#shown(id, job);
  }

  /** @returns undefined if there is no such job; it as it is, if it cannot be resumed */
  async resume(owner: JobOwner, id: string): Promise<Job | undefined> {
    const run = randomUUID();
    const now = this.#clock.now();
    const job = await this.#update(owner.account, id, (known) => {
      const { state } = this.#shown(id, known);
      if (state === "running" || state === "done") return known;
      const { failure: _, ...kept } = known;
      const cutOff = known.cutOff + (state === "stopped" ? 1 : 0);
      return { ...kept, state: "running", run, heldUntil: now + HELD_MS, cutOff };
    });
    if (job?.run === run) this.#work(owner, id, job);
    return job && this.#shown(id, job);
  }

  /** The slice that is being worked on is the last. */
  async pause(account: string, id: string): Promise<Job | undefined> {
    const job = await this.#update(account, id, (known) =>
      known.state === "running" ? { ...known, state: "paused" } : known,
    );
    return job && this.#shown(id, job);
  }

  /** Ends it after the slice that is being worked on, and forgets it. What was done stays done. */
  async remove(account: string, id: string): Promise<void> {
    await this.#update(account, id, () => undefined);
  }

  /** Resolves when nothing is worked on here any more; what was running has stopped. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#runs.values());
  }

  #work(owner: JobOwner, id: string, job: StoredJob): void {
    const working = this.#slices(owner, id, job)
      // It is shown as stopped from then on.
      .catch((error) => this.#onError(error))
      .finally(() => this.#runs.delete(job.run));
    this.#runs.set(job.run, working);
  }

  async #slices(owner: JobOwner, id: string, begun: StoredJob): Promise<void> {
    const { run } = begun;
    let job: StoredJob | undefined = begun;
    while (job?.run === run && job.state === "running") {
      const { table, filter, merge, next } = job;
      const request = { table, filter, merge, isDryRun: false, next };
      const slice = await workInBulk(request, { ...owner, clock: this.#clock });
      job = await this.#update(owner.account, id, (known) =>
        known.run === run ? this.#after(known, slice) : known,
      );
      if (this.#closed) return;
    }
  }

  #after(job: StoredJob, { read, changed, leftAlone, next, failure }: BulkProgress): StoredJob {
    const state = failure ? "failed" : next ? job.state : "done";
    return {
      ...{ ...job, state, next: next ?? {}, ...(failure && { failure }) },
      read: job.read + read,
      changed: job.changed + changed,
      leftAlone: job.leftAlone + leftAlone,
      heldUntil: this.#closed ? 0 : this.#clock.now() + HELD_MS,
    };
  }

  #shown(id: string, job: StoredJob): Job {
    const { run, heldUntil, next: _, merge, ...kept } = job;
    const isHeld = this.#runs.has(run) || (heldUntil > this.#clock.now() && this.#hasOthers());
    const state = job.state === "running" && !isHeld ? "stopped" : job.state;
    return { ...kept, id, state, sets: merge === undefined ? undefined : namesIn(merge) };
  }

  /** Whether another process may be working on these data. */
  #hasOthers(): boolean {
    const engine = this.#engine;
    return engine.supports.sharing && engine.isShared?.() !== false;
  }

  async #all(account: string): Promise<[id: string, job: StoredJob][]> {
    const jobs: [string, StoredJob][] = [];
    await scanToEnd(this.#engine, partitionRange(partitionOf(account)), (entry) => {
      jobs.push([decodeText(entry.key.sort), decode(entry)]);
      return true;
    });
    return jobs;
  }

  /**
   * Changes a job whatever others do to it at the same time.
   * @param change of the job as it is; undefined removes it
   * @returns the job as it is now; undefined if there is none
   */
  async #update(
    account: string,
    id: string,
    change: (job: StoredJob) => StoredJob | undefined,
  ): Promise<StoredJob | undefined> {
    const engine = this.#engine;
    const key = keyOf(account, id);
    for (;;) {
      const [entry] = await engine.get([key]);
      const known = entry && decode(entry);
      if (!known) return undefined;
      const changed = change(known);
      if (changed === known) return known;
      const { committed } = await engine.commit({
        version: engine.nextVersion(),
        checks: [{ key, expected: entry.version }],
        puts: changed ? [{ key, value: encode(changed) }] : [],
        deletes: changed ? [] : [key],
      });
      if (committed) return changed;
    }
  }
}

function keyOf(account: string, id: string): Key {
  return { partition: partitionOf(account), sort: encodeText(id) };
}

function partitionOf(account: string): Uint8Array {
  return encodeText(account, Uint8Array.of(KEY_SPACES.explorerJobs));
}

function encode(job: StoredJob): Uint8Array {
  return Buffer.from(JSON.stringify(job), "utf8");
}

function decode({ value }: Entry): StoredJob {
  return JSON.parse(Buffer.from(value).toString("utf8"));
}

/** Of an entity's JSON, without their types. */
function namesIn(merge: string): string[] {
  return Object.keys(JSON.parse(merge)).filter((name) => !name.includes("@"));
}
