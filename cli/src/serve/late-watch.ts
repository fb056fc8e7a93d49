import type { Clock, Stopwatch } from "@rowhouse/server/clock";
import type { Engine } from "@rowhouse/server/engine/engine";
import { LmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import type { ExplorerInsight } from "@rowhouse/server/explorer/explorer-insight";
import { AccountWatch } from "@rowhouse/server/insight/account-watch";
import { type ActivityReport, joinActivities } from "@rowhouse/server/insight/activity";
import type { Insight, QueryCost, QueryFacts, WriteFacts } from "@rowhouse/server/insight/insight";
import { type HeatHistory, PartitionLoad } from "@rowhouse/server/insight/partition-load";
import type { Observer, RequestRecord, Sender } from "@rowhouse/server/wire/observer";
import { gathering } from "./gathered-parts.ts";

/**
 * Watches for the explorer from the moment that somebody opens it: a server whose explorer nobody uses does not pay for
 * it.
 */
export class LateWatch implements Observer, Insight, Stopwatch, ExplorerInsight {
  readonly #clock: Clock;
  readonly #engine: Engine;
  /** What the rest of insight counts already, if it does. */
  readonly #others: PartitionLoad | undefined;
  #load: PartitionLoad | undefined;
  #watch: AccountWatch | undefined;
  #since = 0;
  readonly #gatherStarts = gathering("explorer-start", () => this.begin());
  readonly #gatherHeat = gathering("explorer-heat", (account): HeatHistory | undefined =>
    (this.#others ?? this.#load)?.heatHistory(account),
  );
  readonly #gatherActivity = gathering("explorer-activity", (account): ActivityReport | undefined =>
    this.#watch?.activity(account),
  );
  readonly #gatherRecordings = gathering(
    "explorer-recordings",
    (account): readonly string[] => this.#watch?.recordings(account) ?? [],
  );

  constructor(clock: Clock, engine: Engine, others: PartitionLoad | undefined) {
    this.#clock = clock;
    this.#engine = engine;
    this.#others = others;
  }

  get refusalsOnly(): boolean {
    return this.#watch === undefined;
  }

  /** Begins in this process. */
  begin(): void {
    if (this.#watch) return;
    this.#since = this.#clock.now();
    if (!this.#others) this.#load = new PartitionLoad(this.#clock);
    const engine = this.#engine;
    const countFlushes = engine instanceof LmdbEngine ? () => engine.flushCounts : undefined;
    this.#watch = new AccountWatch(this.#clock, countFlushes);
  }

  finished(record: RequestRecord, sender: Sender): void {
    this.#watch?.finished(record, sender);
  }

  admitQuery(): void {}

  queried(query: QueryFacts, cost: QueryCost): void {
    if (!this.#watch) return;
    this.#load?.queried(query, cost);
    this.#watch.queried(query, cost);
  }

  admitWrite(write: WriteFacts): void {
    if (!this.#watch) return;
    this.#load?.admitWrite(write);
    this.#watch.admitWrite(write);
  }

  /** Whole milliseconds until fractions are worth their price. */
  now(): number {
    return this.#watch ? performance.timeOrigin + performance.now() : this.#clock.now();
  }

  start(): Promise<unknown> {
    return this.#gatherStarts();
  }

  async heat(account: string): Promise<{ since: number; parts: readonly HeatHistory[] }> {
    await this.start();
    const parts = (await this.#gatherHeat(account)).flatMap((each) => each ?? []);
    return { since: this.#since, parts };
  }

  async activity(account: string): Promise<ActivityReport> {
    await this.start();
    return joinActivities((await this.#gatherActivity(account)).flatMap((each) => each ?? []));
  }

  async recordings(account: string): Promise<readonly string[]> {
    await this.start();
    return (await this.#gatherRecordings(account)).flat();
  }
}
