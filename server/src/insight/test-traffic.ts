import { parseFilter } from "@rowhouse/protocol/filter-parser";
import { planQuery } from "../query/planner.ts";
import type { RequestRecord, Sender } from "../wire/observer.ts";
import { advise } from "./advice/advise.ts";
import { type RecordingEnd, readRecording } from "./advice/read-recording.ts";
import type { TableData } from "./advice/rule.ts";
import { keysRead, type MutationFacts, type QueryFacts } from "./insight.ts";
import type { TrafficEvent } from "./recording.ts";
import { TrafficRecorder } from "./traffic-recorder.ts";

/** Numbers in [0, 1) that the seed determines. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return (state >>> 0) / 2 ** 32;
  };
}

/** Whole numbers from 0 up to, but not including, `end`. */
export function random(seed: number): (end: number) => number {
  const next = seeded(seed);
  return (end) => Math.floor(next() * end);
}

interface Spent {
  readonly read: number;
  readonly returned: number;
  readonly bytes?: number;
  readonly projected?: boolean;
  readonly continued?: boolean;
  readonly table?: string;
  readonly client?: string;
}

interface Asked extends Partial<RequestRecord> {
  readonly perConnection?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

const REQUEST: RequestRecord = {
  ...{ service: "table", operation: "QueryEntity", account: "a", verb: "GET", path: "/a/T" },
  ...{ requestId: "id", clientRequestId: undefined, remoteAddress: "::1" },
  ...{ status: 200, errorCode: undefined, refusedInside: undefined, durationMs: 1 },
  cause: undefined,
  ...{ caller: "shared-key", subject: undefined, requestBytes: 0, responseBytes: 0 },
};

function sender(headers: Readonly<Record<string, string>>): Sender {
  return { opensConnection: false, header: (name) => headers[name] };
}

/** All contents of a recording, which must be short. */
export function readAll(text: string): RecordingEnd & { readonly events: readonly TrafficEvent[] } {
  const events: TrafficEvent[] = [];
  const keep = (event: TrafficEvent) => events.push(event);
  return { ...readRecording(text.split("\n"), { queried: keep, wrote: keep }), events };
}

/** A recorder to send traffic to, and the findings in its recording. */
export function record(bytesMax?: number) {
  let now = 1_000_000_000;
  let text = "";
  const write = (part: Uint8Array) => {
    text += Buffer.from(part).toString();
  };
  const recorder = new TrafficRecorder({ now: () => now }, write, bytesMax);
  const base = { account: "a", table: "T", client: "::1" };
  const done = () => {
    recorder.end();
    return text;
  };
  const advice = (data?: ReadonlyMap<string, TableData>) => advise(done().split("\n"), data);
  return {
    tick(ms: number) {
      now += ms;
    },
    query(
      filter: string,
      { read, returned, bytes = read * 100, ...rest }: Spent,
      address?: Pick<QueryFacts, "partitionKey" | "rowKey">,
    ) {
      const plan = planQuery(filter === "" ? undefined : parseFilter(filter));
      const keys = address ? { ...address, filter: undefined } : { ...keysRead(plan), filter };
      const cost = { entitiesRead: read, entitiesReturned: returned, bytesRead: bytes };
      recorder.queried(
        {
          ...base,
          projected: false,
          continued: false,
          class: plan.class,
          ...rest,
          at: now,
          plan,
          planText: "",
          ...keys,
        },
        { ...cost, engineMicros: 1 },
      );
    },
    write(
      partitionKey: string,
      parts: readonly (readonly [MutationFacts["kind"], string, unknown])[],
      table = base.table,
    ) {
      const mutations = parts.map(([kind, rowKey, ifMatch]) => ({ kind, rowKey, ifMatch }));
      recorder.admitWrite({ ...base, table, at: now, partitionKey, mutations });
    },
    refuse(path: string, status: number, errorCode: string, clientRequestId?: string) {
      const refused = { ...REQUEST, verb: "PUT", path, status, errorCode, clientRequestId };
      recorder.finished(refused, sender({}));
    },
    /** Sends `count` requests; the first of every `perConnection` opens a connection. */
    ask(count: number, { perConnection = count, headers = {}, ...rest }: Asked) {
      for (let i = 0; i < count; i++) {
        const opensConnection = i % perConnection === 0;
        recorder.finished({ ...REQUEST, ...rest }, { ...sender(headers), opensConnection });
      }
    },
    lines: () => advice().lines,
    text: done,
    events: () => readAll(done()).events,
    advice,
    rules: (data?: ReadonlyMap<string, TableData>) => advice(data).findings.map(({ rule }) => rule),
  };
}
