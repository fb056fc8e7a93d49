import type { Clock } from "../clock.ts";
import { PLAN_CLASSES, type PlanClass } from "../query/plan.ts";
import {
  type Insight,
  partitionOf,
  type QueryCost,
  type QueryFacts,
  type WriteFacts,
} from "./insight.ts";

/** What happened, in order. Keys and filters are data: a recording is as confidential as its tables. */
export type TrafficEvent = QueryEvent | WriteEvent;

interface EventBase {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly client: string;
  readonly account: string;
  readonly table: string;
}

export interface QueryEvent extends EventBase {
  readonly kind: "query";
  readonly class: PlanClass;
  /** Of the one partition read. */
  readonly partitionKey: string | undefined;
  /** Of a point query. */
  readonly rowKey: string | undefined;
  readonly filter: string | undefined;
  readonly projected: boolean;
  readonly read: number;
  readonly returned: number;
  readonly bytes: number;
}

export interface WriteEvent extends EventBase {
  readonly kind: "write";
  readonly partitionKey: string;
  readonly mutations: readonly RecordedMutation[];
}

export interface RecordedMutation {
  readonly kind: "insert" | "replace" | "merge" | "delete";
  readonly rowKey: string;
  /** Which `If-Match`: none, any ("*"), or the ETag of what was read. */
  readonly condition: "none" | "any" | "exact";
}

const FORMAT = "rowhouse-recording";
export const RECORDING_BYTES_MAX = 64 * 1024 * 1024;
const CHUNK_LENGTH = 64 * 1024;
const KINDS = ["insert", "replace", "merge", "delete"] as const;
const CONDITIONS = ["none", "any", "exact"] as const;

/**
 * Writes traffic down, a JSON array a line, until the recording is as long as it may be. Lines are put
 * together by hand: `JSON.stringify` of the whole array costs three times as much.
 */
export class TrafficRecorder implements Insight {
  readonly #clock: Clock;
  readonly #write: (text: string) => void;
  readonly #lengthMax: number;
  #text: string;
  #length = 0;
  #isFull = false;
  #client = "";
  #account = "";
  #table = "";
  #originText = "";

  /** @param write takes some 64 KiB of text at a time */
  constructor(clock: Clock, write: (text: string) => void, lengthMax = RECORDING_BYTES_MAX) {
    this.#clock = clock;
    this.#write = write;
    this.#lengthMax = lengthMax;
    this.#text = `["${FORMAT}",1]\n`;
  }

  admitQuery(): void {}

  queried(query: QueryFacts, cost: QueryCost): void {
    if (this.#isFull) return;
    const { account, table, client, plan, filter, projected } = query;
    const [first] = plan.reads;
    const rowKey = plan.reads.length === 1 && first?.kind === "point" ? first.rowKey : undefined;
    this.#add(
      `["q",${query.at},${this.#origin(client, account, table)},` +
        `${PLAN_CLASSES.indexOf(plan.class)},${text(partitionOf(plan))},${text(rowKey)},` +
        `${text(filter)},${projected ? 1 : 0},${cost.entitiesRead},${cost.entitiesReturned},` +
        `${cost.bytesRead}]\n`,
    );
  }

  admitWrite({ at, account, table, client, partitionKey, mutations }: WriteFacts): void {
    if (this.#isFull) return;
    const parts = mutations.map(({ kind, rowKey, ifMatch }) => {
      const condition = ifMatch === undefined ? 0 : ifMatch === "*" ? 1 : 2;
      return `[${KINDS.indexOf(kind)},${text(rowKey)},${condition}]`;
    });
    this.#add(
      `["w",${at},${this.#origin(client, account, table)},` +
        `${text(partitionKey)},[${parts.join(",")}]]\n`,
    );
  }

  /** Hands over what is left. Nothing is recorded afterwards. */
  end(): void {
    this.#write(`${this.#text}["end",${this.#clock.now()},${this.#isFull ? 1 : 0}]\n`);
    this.#text = "";
    this.#isFull = true;
  }

  /** Mostly that of the operation before. */
  #origin(client: string, account: string, table: string): string {
    if (client !== this.#client || account !== this.#account || table !== this.#table) {
      this.#client = client;
      this.#account = account;
      this.#table = table;
      this.#originText = `${text(client)},${text(account)},${text(table)}`;
    }
    return this.#originText;
  }

  #add(line: string): void {
    this.#text += line;
    if (this.#text.length < CHUNK_LENGTH) return;
    this.#write(this.#text);
    this.#length += this.#text.length;
    this.#text = "";
    if (this.#length >= this.#lengthMax) this.#isFull = true;
  }
}

/** Printable ASCII without quote and backslash: a third of the time of `JSON.stringify`. */
const PLAIN = /^[ !#-[\]-~]*$/;

function text(value: string | undefined): string {
  if (value === undefined) return "null";
  return PLAIN.test(value) ? `"${value}"` : JSON.stringify(value);
}

/**
 * Reads a recording. A last line that was cut off, as a killed server leaves it, is left out.
 * @throws Error for text that is no recording
 */
export function readRecording(recording: string): TrafficEvent[] {
  const lines = recording.split("\n");
  if (!lines[0]?.startsWith(`["${FORMAT}",1]`)) throw new Error("This is no recording of traffic.");
  const events: TrafficEvent[] = [];
  for (const [index, line] of lines.entries()) {
    if (index === 0 || line === "") continue;
    let fields: unknown;
    try {
      fields = JSON.parse(line);
    } catch {
      if (index === lines.length - 1) break;
      throw new Error(`Line ${index + 1} of the recording is damaged.`);
    }
    const event = Array.isArray(fields) ? readEvent(fields) : undefined;
    if (event) events.push(event);
  }
  return events;
}

function readEvent(fields: readonly unknown[]): TrafficEvent | undefined {
  const [kind, at, client, account, table, ...rest] = fields;
  const base = {
    ...{ at: Number(at), client: String(client) },
    ...{ account: String(account), table: String(table) },
  };
  if (kind === "q") {
    const [planClass, partitionKey, rowKey, filter, projected, read, returned, bytes] = rest;
    return {
      ...base,
      kind: "query",
      class: PLAN_CLASSES[Number(planClass)] ?? "table scan",
      ...{ partitionKey: given(partitionKey), rowKey: given(rowKey), filter: given(filter) },
      ...{ projected: projected === 1, read: Number(read) },
      ...{ returned: Number(returned), bytes: Number(bytes) },
    };
  }
  if (kind !== "w") return undefined;
  const [partitionKey, mutations] = rest;
  return {
    ...{ ...base, kind: "write", partitionKey: String(partitionKey) },
    mutations: (Array.isArray(mutations) ? mutations : []).map(
      ([mutation, rowKey, condition]: readonly unknown[]) => ({
        kind: KINDS[Number(mutation)] ?? "insert",
        rowKey: String(rowKey),
        condition: CONDITIONS[Number(condition)] ?? "none",
      }),
    ),
  };
}

function given(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
