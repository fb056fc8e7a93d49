import { PLAN_CLASSES } from "../../query/plan.ts";
import type { AgentCounts, ClientCounts } from "../client-tally.ts";
import {
  CONDITIONS,
  CONTINUED,
  type EventBase,
  FORMAT,
  KINDS,
  PROJECTED,
  type QueryEvent,
  type Refusal,
  VERSIONS_READ,
  type WriteEvent,
} from "../recording.ts";
import { TableNames } from "./table-names.ts";

/** Receives the contents of a recording, in order. */
export interface TrafficListener {
  queried?(query: QueryEvent): void;
  wrote?(write: WriteEvent): void;
  refused?(refusal: Refusal): void;
}

/** The end of a recording. */
export interface RecordingEnd {
  /** Empty where the server was killed, since they are written at the end. */
  readonly clients: readonly ClientCounts[];
  readonly agents: readonly AgentCounts[];
  /**
   * Whether the recording is complete: it may have reached its maximum size, or the server may have been
   * killed.
   */
  readonly ending: "whole" | "full" | "cut off";
}

/**
 * Passes the contents of a recording to a listener, one by one: there may be millions of operations. A
 * truncated last line, as a killed server leaves it, is ignored.
 * @param lines without their line ends; after the last line end there is one more, usually empty line
 * @param tables used to give each table one name in queries and writes
 * @throws Error for text that is not a recording
 */
export function readRecording(
  lines: Iterable<string>,
  listener: TrafficListener,
  tables = new TableNames(),
): RecordingEnd {
  const teller = new Teller(listener, tables);
  let count = 0;
  let damaged = 0;
  for (const line of lines) {
    if (damaged > 0) throw new Error(`Line ${damaged} of the recording is damaged.`);
    count++;
    if (count === 1) checkReadable(line);
    if (count === 1 || line === "") continue;
    let fields: unknown;
    try {
      fields = JSON.parse(line);
    } catch {
      damaged = count;
    }
    if (Array.isArray(fields)) teller.tell(fields);
  }
  if (count === 0) checkReadable("");
  return teller.end();
}

/** Expands lines, which contain only what differs from the lines before them. */
class Teller {
  readonly #listener: TrafficListener;
  readonly #tables: TableNames;
  #at = 0;
  #origin: Origin = { client: "", account: "", table: "" };
  /** Of the previous query. */
  #partitionKey: string | undefined;
  readonly #clients: ClientCounts[] = [];
  readonly #agents: AgentCounts[] = [];
  #ending: RecordingEnd["ending"] = "cut off";

  constructor(listener: TrafficListener, tables: TableNames) {
    this.#listener = listener;
    this.#tables = tables;
  }

  tell(fields: readonly unknown[]): void {
    const listener = this.#listener;
    switch (fields[0]) {
      case "o":
        this.#origin = readOrigin(fields, this.#tables);
        break;
      case "p":
        this.#at += Number(fields[1]);
        if (fields[4] !== undefined) this.#partitionKey = given(fields[4]);
        listener.queried?.(readPoint(this.#origin, this.#at, this.#partitionKey, fields));
        break;
      case "q":
        this.#at += Number(fields[1]);
        if (fields[3] !== 0) this.#partitionKey = given(fields[3]);
        listener.queried?.(readQuery(this.#origin, this.#at, this.#partitionKey, fields));
        break;
      case "w":
        this.#at += Number(fields[1]);
        listener.wrote?.(readWrite(this.#origin, this.#at, fields));
        break;
      case "r":
        this.#at += Number(fields[1]);
        listener.refused?.(readRefusal(this.#at, fields));
        break;
      case "c":
        this.#clients.push(readClient(fields));
        break;
      case "a":
        this.#agents.push({ agent: String(fields[1]), connections: Number(fields[2]) });
        break;
      case "end":
        this.#ending = fields[2] === 1 ? "full" : "whole";
    }
  }

  end(): RecordingEnd {
    return { clients: this.#clients, agents: this.#agents, ending: this.#ending };
  }
}

const CALLERS = ["anonymous", "shared-key", "account-sas", "service-sas", "bearer"] as const;

/** @throws Error for the first line of another format or version */
function checkReadable(line: string): void {
  if (VERSIONS_READ.some((version) => line.startsWith(`["${FORMAT}",${version}]`))) return;
  const version = new RegExp(`^\\["${FORMAT}",(\\d+)\\]`).exec(line)?.[1];
  throw new Error(
    version === undefined
      ? "This is not a traffic recording; rowhouse serve --record FILE writes one."
      : `This is a recording of format ${version}; formats ${VERSIONS_READ.join(", ")} are supported.`,
  );
}

type Origin = Pick<EventBase, "client" | "account" | "table">;

// Queries and writes are built member by member: spreading objects took longer than everything else here.

function readOrigin([, client, account, table]: readonly unknown[], tables: TableNames): Origin {
  const known = tables.meet(`${account}/${table}`);
  return {
    ...{ client: String(client), account: String(account) },
    table: known.slice(known.indexOf("/") + 1),
  };
}

function readPoint(
  { client, account, table }: Origin,
  at: number,
  partitionKey: string | undefined,
  [, , rowKey, bytes]: readonly unknown[],
): QueryEvent {
  return {
    kind: "query",
    at,
    client,
    account,
    table,
    class: "point query",
    partitionKey,
    rowKey: given(rowKey),
    filter: undefined,
    projected: false,
    continued: false,
    read: 1,
    returned: 1,
    bytes: Number(bytes),
  };
}

function readQuery(
  { client, account, table }: Origin,
  at: number,
  partitionKey: string | undefined,
  [, , planClass, , rowKey, filter, flags, read, returned, bytes]: readonly unknown[],
): QueryEvent {
  return {
    kind: "query",
    at,
    client,
    account,
    table,
    class: PLAN_CLASSES[Number(planClass)] ?? "table scan",
    partitionKey,
    rowKey: given(rowKey),
    filter: given(filter),
    projected: (Number(flags) & PROJECTED) !== 0,
    continued: (Number(flags) & CONTINUED) !== 0,
    read: Number(read),
    returned: Number(returned),
    bytes: Number(bytes),
  };
}

function readWrite(
  { client, account, table }: Origin,
  at: number,
  [, , partitionKey, mutations]: readonly unknown[],
): WriteEvent {
  return {
    kind: "write",
    at,
    client,
    account,
    table,
    partitionKey: String(partitionKey),
    mutations: (Array.isArray(mutations) ? mutations : []).map(
      ([mutation, rowKey, condition]: readonly unknown[]) => ({
        kind: KINDS[Number(mutation)] ?? "insert",
        rowKey: String(rowKey),
        condition: CONDITIONS[Number(condition)] ?? "none",
      }),
    ),
  };
}

function readRefusal(
  at: number,
  [, , client, account, verb, path, status, code, clientRequestId]: readonly unknown[],
): Refusal {
  return {
    clientRequestId: given(clientRequestId),
    ...{ at, client: String(client), account: String(account), verb: String(verb) },
    ...{ path: String(path), status: Number(status), code: String(code) },
  };
}

function readClient(fields: readonly unknown[]): ClientCounts {
  const [, client, account, caller, requests, connections, preflights, scripted] = fields;
  return {
    ...{ client: String(client), account: String(account) },
    caller: CALLERS.find((each) => each === caller) ?? "anonymous",
    ...{ requests: Number(requests), connections: Number(connections) },
    ...{ preflights: Number(preflights), scripted: Number(scripted) },
  };
}

function given(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
