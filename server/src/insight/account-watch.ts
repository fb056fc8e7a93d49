import type { Clock } from "../clock.ts";
import type { Observer, RequestRecord, Sender } from "../wire/observer.ts";
import { Activity, type ActivityReport, type CountFlushes } from "./activity.ts";
import type { Insight, QueryCost, QueryFacts, WriteFacts } from "./insight.ts";
import { TrafficRecorder } from "./traffic-recorder.ts";

/** Further accounts are not watched: what is counted of each takes up to 6 MiB. */
const ACCOUNTS_MAX = 8;
/** Of a recording; the one before it is kept, too. */
const RECORDING_BYTES = 2 * 1024 * 1024;

/** What is watched of one account for its owner. */
interface Watched {
  readonly activity: Activity;
  readonly recording: RecentTraffic;
}

/** Watches the accounts separately: each owner may see their own. */
export class AccountWatch implements Observer, Partial<Insight> {
  readonly #clock: Clock;
  readonly #countFlushes: CountFlushes | undefined;
  readonly #accounts = new Map<string, Watched>();
  /** Of the previous request, which is usually of the same account. */
  #last: Watched | undefined;
  #lastAccount = "";

  constructor(clock: Clock, countFlushes?: CountFlushes) {
    this.#clock = clock;
    this.#countFlushes = countFlushes;
  }

  finished(record: RequestRecord, sender: Sender): void {
    // Who is not known may claim any account.
    const watched =
      record.status === 401 || record.status === 403
        ? this.#accounts.get(record.account)
        : this.#of(record.account);
    watched?.activity.finished(record, this.#clock.now());
    watched?.recording.finished(record, sender);
  }

  queried(query: QueryFacts, cost: QueryCost): void {
    const watched = this.#of(query.account);
    watched?.activity.queried(query, cost);
    watched?.recording.queried(query, cost);
  }

  admitWrite(write: WriteFacts): void {
    const watched = this.#of(write.account);
    watched?.activity.admitWrite(write);
    watched?.recording.admitWrite(write);
  }

  activity(account: string): ActivityReport | undefined {
    return this.#accounts.get(account)?.activity.report(this.#clock.now());
  }

  /** Its recordings, the older first: see `recording.ts`. */
  recordings(account: string): readonly string[] {
    return this.#accounts.get(account)?.recording.texts() ?? [];
  }

  #of(account: string): Watched | undefined {
    if (account === this.#lastAccount) return this.#last;
    let watched = this.#accounts.get(account);
    if (!watched && this.#accounts.size < ACCOUNTS_MAX) {
      watched = {
        activity: new Activity(this.#clock.now(), this.#countFlushes),
        recording: new RecentTraffic(this.#clock),
      };
      this.#accounts.set(account, watched);
    }
    this.#lastAccount = account;
    this.#last = watched;
    return watched;
  }
}

/** The last operations, in two recordings: when the second is full, the first goes. */
class RecentTraffic {
  readonly #clock: Clock;
  #older: Recording | undefined;
  #newer: Recording;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#newer = new Recording(clock);
  }

  finished(record: RequestRecord, sender: Sender): void {
    this.#current().recorder.finished(record, sender);
  }

  queried(query: QueryFacts, cost: QueryCost): void {
    this.#current().recorder.queried(query, cost);
  }

  admitWrite(write: WriteFacts): void {
    this.#current().recorder.admitWrite(write);
  }

  texts(): string[] {
    return [this.#older, this.#newer].flatMap((each) => (each ? [each.text()] : []));
  }

  #current(): Recording {
    if (this.#newer.bytes >= RECORDING_BYTES) {
      this.#newer.recorder.end();
      this.#older = this.#newer;
      this.#newer = new Recording(this.#clock);
    }
    return this.#newer;
  }
}

class Recording {
  readonly recorder: TrafficRecorder;
  readonly #chunks: Uint8Array[] = [];
  bytes = 0;

  constructor(clock: Clock) {
    this.recorder = new TrafficRecorder(clock, (chunk) => {
      this.#chunks.push(chunk);
      this.bytes += chunk.length;
    });
  }

  text(): string {
    return Buffer.concat([...this.#chunks, this.recorder.unwritten()]).toString("utf8");
  }
}
