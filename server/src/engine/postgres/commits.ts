import {
  type AtomicWrite,
  type CommitResult,
  EngineError,
  type Entry,
  type Key,
  PREMISE_FAILED,
} from "../engine.ts";
import { assertKeyFits, holds } from "../engine-rules.ts";
import { equalBytes } from "../key-codec.ts";
import type { VersionClock } from "../version-clock.ts";
import type { CommitExchange, CommitExchangeOptions } from "./commit-exchange.ts";
import { judgeOne, type OneKeyWrite } from "./commit-one.ts";
import { type CommitPlan, KEY_BYTES_MAX, planCommit, type SeenVersions } from "./commit-plan.ts";
import { identify } from "./get.ts";
import { GroupCommit } from "./group-commit.ts";
import { MultiKeyCommit } from "./multi-key-commit.ts";
import { type Outcome, toEngineError } from "./outcome.ts";
import type { Dialect } from "./server-facts.ts";
import type { SessionPool } from "./session-pool.ts";
import { SharedCommit } from "./shared-commit.ts";
import type { Fault, ServerError } from "./sql-state.ts";
import { verifyWritten } from "./verify-written.ts";

/** A commit that has lost to rivals in this many attempts fails. */
const ATTEMPTS_MAX = 20;
const BACKOFF_MS_MAX = 50;
/** A machine that is away is not asked more often, until the deadline. */
const AWAY_MS_MAX = 250;
/**
 * The least time of an attempt after the first, though it begins just before the deadline: given up at once it would
 * turn "nothing has happened" into an unknown outcome.
 */
const ATTEMPT_MS_MIN = 2_000;

export interface CommitsOptions {
  readonly pool: SessionPool;
  readonly get: (keys: readonly Key[], deadline: number) => Promise<(Entry | undefined)[]>;
  readonly versions: VersionClock;
  readonly dialect: Dialect;
  readonly timeoutMs: number;
}

/**
 * The result of an attempt. If nothing happened and another one is worthwhile: "again" after a lost race, "later" if a
 * machine is away, with the error to report if it stays away.
 */
type Verdict = CommitResult | "again" | { readonly later: ServerError };

/**
 * Executes commits: chooses their form, repeats those that lost a race and changed nothing, and finds out the
 * outcome of a commit whose answer was lost. An outcome that stays unknown is reported as such, and the
 * commit is never repeated.
 */
export class Commits {
  readonly #options: CommitsOptions;
  readonly #groupCommit: GroupCommit;

  constructor(options: CommitsOptions) {
    this.#options = options;
    this.#groupCommit = new GroupCommit(options.pool);
  }

  async commit(write: AtomicWrite): Promise<CommitResult> {
    const { premise, checks } = write;
    if (!premise || premise.isLoose) return this.#commit(write);
    const held = { key: premise.key, expected: premise.version };
    const result = await this.#commit({ ...write, premise: undefined, checks: [...checks, held] });
    const isPremise = !result.committed && result.failedCheck === checks.length;
    return isPremise ? { committed: false, failedCheck: PREMISE_FAILED } : result;
  }

  #commit(write: AtomicWrite): Promise<CommitResult> {
    const deadline = performance.now() + this.#options.timeoutMs;
    const one = asOneKeyWrite(write);
    if (one) {
      assertKeyFits(one.key, KEY_BYTES_MAX);
      // First together with other commits. One that this did not settle is repeated alone.
      return this.#repeat(write, deadline, (attempts, until) =>
        attempts === 1 && this.#options.dialect === "postgres"
          ? this.#attemptGathered(one, until)
          : this.#attemptOne(one, until),
      );
    }
    const plan = planCommit(write);
    const isReading = write.puts.length + write.deletes.length === 0 || plan.isContradictory;
    return isReading ? this.#judge(write, deadline) : this.#commitKeys(plan, deadline);
  }

  /** For a write that changes nothing, or cannot succeed. */
  async #judge(write: AtomicWrite, deadline: number): Promise<CommitResult> {
    const { refusal } = await this.#look(write, deadline);
    return refusal ?? { committed: true, versions: [] };
  }

  async #commitKeys(first: CommitPlan, deadline: number): Promise<CommitResult> {
    const { write } = first;
    let plan = first;
    return this.#repeat(write, deadline, async (_attempts, until) => {
      const result = await this.#attemptKeys(plan, until);
      if (!("kind" in result) || result.kind !== "failed" || result.error.fault !== "check") {
        return result;
      }
      // A check failed: one of the caller's, which is a result, or a supposition of the plan.
      const { refusal, seen } = await this.#look(write, until);
      if (refusal) return refusal;
      plan = planCommit(write, seen);
      return "again";
    });
  }

  async #repeat(
    write: AtomicWrite,
    deadline: number,
    attempt: (attempts: number, until: number) => Promise<Verdict | Outcome>,
  ): Promise<CommitResult> {
    let races = 0;
    for (let attempts = 1; ; attempts++) {
      const longer = attempts === 1 ? deadline : performance.now() + ATTEMPT_MS_MIN;
      let result = await attempt(attempts, Math.max(deadline, longer));
      if (result !== "again" && "kind" in result) result = await this.#resolve(write, result);
      if (result !== "again" && "later" in result) {
        if (performance.now() > deadline) throw toEngineError(result.later);
        await sleep(Math.random() * Math.min(AWAY_MS_MAX, 2 ** attempts));
        continue;
      }
      if (result !== "again") return result;
      if (++races >= ATTEMPTS_MAX || performance.now() > deadline) {
        throw new EngineError(
          "Unavailable",
          `The commit failed in all ${attempts} attempts. Retry the request.`,
        );
      }
      // The first time at once: mostly a single rival interfered, and has finished.
      if (races > 1) await sleep(Math.random() * Math.min(BACKOFF_MS_MAX, 2 ** races));
    }
  }

  async #attemptGathered(one: OneKeyWrite, deadline: number): Promise<Verdict | Outcome> {
    const gathered = await this.#groupCommit.run(one, deadline);
    if (gathered === "spoiled") return "again";
    const { outcome, rowVersion } = gathered;
    return outcome.kind === "done" ? this.#judgeOne(one, rowVersion) : outcome;
  }

  async #attemptOne(one: OneKeyWrite, deadline: number): Promise<CommitResult | Outcome> {
    const { exchange, outcome } = await this.#run(
      deadline,
      (options) => new SharedCommit([one], options),
    );
    if (outcome.kind === "done") return this.#judgeOne(one, exchange.rowVersions[0]);
    const isUntrue = outcome.kind === "failed" && exchange.isPremiseUntrue(outcome.error);
    return isUntrue ? { committed: false, failedCheck: PREMISE_FAILED } : outcome;
  }

  #judgeOne(one: OneKeyWrite, rowVersion: number | undefined): CommitResult {
    if (rowVersion !== undefined) this.#options.versions.raiseAbove(rowVersion);
    return judgeOne(one, rowVersion);
  }

  async #attemptKeys(plan: CommitPlan, deadline: number): Promise<CommitResult | Outcome> {
    const { exchange, outcome } = await this.#run(
      deadline,
      (options) => new MultiKeyCommit(plan, options),
    );
    if (outcome.kind !== "done") return outcome;
    for (const version of exchange.raised.values()) this.#options.versions.raiseAbove(version);
    return { committed: true, versions: versionsOf(plan.write, exchange.raised) };
  }

  async #run<Exchange extends CommitExchange>(
    deadline: number,
    begin: (options: CommitExchangeOptions) => Exchange,
  ): Promise<{ exchange: Exchange; outcome: Outcome }> {
    const { dialect, pool } = this.#options;
    const session = await pool.acquire(deadline);
    return new Promise((resolve) => {
      const settle = (outcome: Outcome) => {
        pool.releaseAfter(session, outcome);
        resolve({ exchange, outcome });
      };
      const exchange = begin({ deadline, dialect, settle });
      exchange.start(session);
    });
  }

  /** Decides what to do about an attempt that did not succeed. */
  async #resolve(write: AtomicWrite, outcome: Outcome): Promise<Verdict> {
    if (outcome.kind === "done") throw new Error("An attempt that succeeded needs no resolution.");
    if (outcome.kind === "lost") {
      return outcome.isSent ? this.#findOut(write, outcome.error) : "again";
    }
    const { error, mayHaveHappened } = outcome;
    if (mayHaveHappened && !isCertain(error)) return this.#findOut(write, error);
    if (error.isOfWorkerAway || error.fault === "unknown") return { later: error };
    if (REPEATED.has(error.fault)) return "again";
    throw toEngineError(error);
  }

  /** A version other than ours proves nothing, so the outcome may stay unknown. */
  async #findOut(write: AtomicWrite, cause: Error): Promise<CommitResult> {
    const { dialect, pool } = this.#options;
    if (await verifyWritten(pool, write, dialect)) {
      return { committed: true, versions: write.puts.map(() => write.version) };
    }
    throw new EngineError("Unknown", `The outcome of the commit is unknown: ${cause.message}`, {
      cause,
    });
  }

  /** Reads everything that a write depends on in one snapshot, and evaluates its checks. */
  async #look(
    { checks, deletes, premise }: AtomicWrite,
    deadline: number,
  ): Promise<{ refusal: CommitResult | undefined; seen: SeenVersions }> {
    const loose = premise?.isLoose ? [premise] : [];
    const keys = [...checks, ...loose].map(({ key }) => key).concat(deletes);
    const entries = await this.#options.get(keys, deadline);
    const seen = new Map<string, number | undefined>();
    for (const [index, { partition, sort }] of keys.entries()) {
      seen.set(identify(partition, sort), entries[index]?.version);
    }
    const failed = checks.findIndex((check, index) => !holds(check, entries[index]?.version));
    const isUntrue = loose.some(({ version }) => entries[checks.length]?.version !== version);
    const failedCheck = isUntrue ? PREMISE_FAILED : failed;
    const isRefused = isUntrue || failed >= 0;
    return { refusal: isRefused ? { committed: false, failedCheck } : undefined, seen };
  }
}

/** The write as one statement, if it is of one key and its check, if any, is of the same key. */
function asOneKeyWrite(write: AtomicWrite): OneKeyWrite | undefined {
  const { version, checks, puts, deletes } = write;
  const premise = write.premise?.isLoose ? write.premise : undefined;
  if (puts.length + deletes.length !== 1 || checks.length > 1) return undefined;
  const put = puts[0];
  const key = put?.key ?? deletes[0]!;
  const check = checks[0];
  // It may find no row, which would look as if the premise did not hold.
  if (premise && put === undefined && check === undefined) return undefined;
  if (check) {
    // No single statement deletes a key that must be absent.
    if (put === undefined && check.expected === "absent") return undefined;
    if (!equalBytes(check.key.sort, key.sort)) return undefined;
    if (!equalBytes(check.key.partition, key.partition)) return undefined;
  }
  return { key, expected: check?.expected, value: put?.value, version, premise };
}

function versionsOf(write: AtomicWrite, raised: ReadonlyMap<string, number>): readonly number[] {
  if (raised.size === 0) return write.puts.map(() => write.version);
  return write.puts.map(
    ({ key }) => raised.get(identify(key.partition, key.sort)) ?? write.version,
  );
}

/** Faults after which a commit that did not happen is worth another attempt. */
const REPEATED: ReadonlySet<Fault> = new Set(["retry", "check", "forget", "standby"]);

/**
 * Whether nothing happened although the COMMIT itself may have run: the commit lost a race, or a statement
 * waited and failed with this error before it wrote. An error that ends the server's process, such as a full
 * disk, may follow the commit record.
 */
function isCertain({ isFatal, isOfWorkerAway, fault, sqlState }: ServerError): boolean {
  if (isOfWorkerAway) return true;
  if (isFatal || fault === "unknown") return false;
  return REPEATED.has(fault) || sqlState === "55P03" || sqlState.startsWith("53");
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
