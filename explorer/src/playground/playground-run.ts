import { signal } from "@preact/signals";
import {
  connect,
  type Database,
  isTableError,
  PortError,
  type StoredEntity,
} from "@rowhouse/patterns";
import { intercept, type Layer, type Memory } from "@rowhouse/patterns/testing";
import type { Action, Pattern, World } from "./pattern.ts";
import { isWrite, wordsOf } from "./request-words.ts";

/** The endpoints of a run. The clock stands still while somebody looks; only what waits in a pattern moves it. */
export type Backend = Omit<Memory, "tables"> & {
  readonly tables: Parameters<typeof connect>[0]["tables"];
};

/** A request of the pattern. `waiting` ones are sent by a step, or never. */
export interface AskedRequest {
  readonly id: number;
  readonly words: string;
  readonly state: "waiting" | "sent" | "answered" | "refused" | "never sent";
  /** What it changed, or why it was refused. */
  readonly note: string;
}

/** Closed: there are no tables. At rest: nothing runs. */
export type RunState = "closed" | "at rest" | "running" | "crashed";

export interface Verdict {
  readonly says: string;
  /** For now: broken, as it may be until what was interrupted is done. */
  readonly verdict: "holds" | "for now" | "broken";
  readonly evidence: string | undefined;
}

export interface MarkedRow {
  readonly row: StoredEntity;
  /** What the last request did to it. */
  readonly mark: "" | "new" | "changed" | "gone";
}

export interface Shown {
  readonly tables: ReadonlyMap<string, readonly MarkedRow[]>;
  readonly queues: World["queues"];
  readonly verdicts: readonly Verdict[];
}

/** An action on its way, until it ends or dies. */
interface Life {
  readonly waiting: (() => void)[];
  runsOn: boolean;
  isOver: boolean;
}

const NEVER = new Promise<never>(() => {});
const NOTHING: Shown = { tables: new Map(), queues: new Map(), verdicts: [] };
const REQUESTS_SHOWN = 200;

/**
 * Runs the actions of a pattern request by request. Each request waits before it is sent, for a step that sends it or a
 * crash after which it never is; after each that writes, everything stored is read and the invariants are checked.
 */
export class PlaygroundRun {
  readonly state = signal<RunState>("closed");
  readonly requests = signal<readonly AskedRequest[]>([]);
  readonly shown = signal<Shown>(NOTHING);
  /** What the last action came to, in words. */
  readonly outcome = signal("");
  readonly #pattern: Pattern;
  readonly #backend: Backend;
  #life: Life | undefined;
  #world: World = { tables: new Map(), queues: new Map() };
  #owesRecovery = false;
  #asked = 0;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(pattern: Pattern, backend: Backend) {
    this.#pattern = pattern;
    this.#backend = backend;
  }

  /** Creates the tables and fills them, without steps. @throws PortError */
  async open(): Promise<void> {
    await this.#pattern.prepare(connect({ ...this.#backend, ...QUIET }));
    this.state.value = "at rest";
    await this.#look();
    this.#show(undefined);
  }

  /** Begins an action, whose first request then waits. */
  async start(action: Action): Promise<void> {
    if (this.state.value === "closed" || this.state.value === "running") return;
    const life: Life = { waiting: [], runsOn: false, isOver: false };
    this.#life = life;
    // Nothing of the next action happens in the same millisecond.
    this.#backend.clock.advance(1000);
    this.requests.value = [];
    this.outcome.value = "";
    this.state.value = "running";
    this.#show(undefined);
    const outcome = await outcomeOf(action, this.#database(life));
    if (life.isOver) return;
    life.isOver = true;
    if (action === this.#pattern.recovery) this.#owesRecovery = false;
    this.outcome.value = outcome;
    this.state.value = this.#owesRecovery ? "crashed" : "at rest";
    await this.#turn;
    this.#show(undefined);
  }

  /** Sends the request that has waited longest. */
  step(): void {
    this.#life?.waiting.shift()?.();
  }

  /** Sends this and all that follow as they come. */
  runOn(): void {
    const life = this.#life;
    if (!life) return;
    life.runsOn = true;
    for (const go of life.waiting.splice(0)) go();
  }

  /** The process dies: what waits is never sent, and nothing of it runs again. */
  crash(): void {
    const life = this.#life;
    if (!life || life.isOver) return;
    life.isOver = true;
    this.#owesRecovery = this.#pattern.recovery !== undefined;
    this.requests.value = this.requests.value.map((each) =>
      each.state === "waiting" ? { ...each, state: "never sent" } : each,
    );
    this.outcome.value = "The process is dead. What it had not sent is never sent.";
    this.state.value = this.#owesRecovery ? "crashed" : "at rest";
    this.#show(undefined);
  }

  /** Removes the tables. */
  async close(): Promise<void> {
    if (this.#life) this.#life.isOver = true;
    this.state.value = "closed";
    this.shown.value = NOTHING;
    await this.#turn;
    for (const table of await this.#tableNames()) await this.#backend.tables.deleteTable(table);
  }

  #database(life: Life): Database {
    const backend = this.#backend;
    const layer: Layer = async (call, send) => {
      if (life.isOver) return NEVER;
      const id = this.#ask(wordsOf(call));
      if (!life.runsOn) await new Promise<void>((go) => life.waiting.push(go));
      // One after the other, so that it is known which request changed what.
      const turn = this.#turn.then(async () => {
        if (life.isOver) return undefined;
        this.#note(id, { state: "sent" });
        try {
          const answer = await send();
          this.#note(id, { state: "answered" });
          return answer;
        } catch (error) {
          this.#note(id, { state: "refused", note: messageOf(error) });
          throw error;
        } finally {
          if (isWrite(call)) {
            await this.#look();
            this.#show(id);
          }
        }
      });
      this.#turn = turn.catch(() => undefined);
      try {
        return await turn;
      } finally {
        // The answer comes to a process that is dead.
        if (life.isOver) await NEVER;
      }
    };
    return connect({ ...backend, ...intercept(backend, layer), ...QUIET });
  }

  #ask(words: string): number {
    const id = ++this.#asked;
    const asked: AskedRequest = { id, words, state: "waiting", note: "" };
    this.requests.value = [...this.requests.value, asked].slice(-REQUESTS_SHOWN);
    return id;
  }

  #note(id: number, change: Partial<AskedRequest>): void {
    this.requests.value = this.requests.value.map((each) =>
      each.id === id ? { ...each, ...change } : each,
    );
  }

  async #tableNames(): Promise<string[]> {
    const { names } = await this.#backend.tables.listTables({});
    return [...names];
  }

  /** Reads everything that is stored. */
  async #look(): Promise<void> {
    const { tables: port, queues } = this.#backend;
    const tables = new Map<string, StoredEntity[]>();
    for (const table of await this.#tableNames()) {
      const rows: StoredEntity[] = [];
      let page = await port.query(table, {});
      rows.push(...page.entities);
      while (page.continuation) {
        page = await port.query(table, { continuation: page.continuation });
        rows.push(...page.entities);
      }
      tables.set(table, rows);
    }
    const names = this.#pattern.queues ?? [];
    this.#before = this.#world;
    this.#world = {
      tables,
      queues: new Map(names.map((name) => [name, queues.contents(name).map(({ text }) => text)])),
    };
  }

  #before: World = this.#world;

  /** @param by the request since which the marks are; undefined for none */
  #show(by: number | undefined): void {
    const world = this.#world;
    const tables = by === undefined ? unmarked(world) : marked(this.#before, world);
    const note = changesIn(tables);
    if (by !== undefined && note !== "") this.#note(by, { note });
    this.shown.value = { tables, queues: world.queues, verdicts: this.#verdicts() };
  }

  #verdicts(): Verdict[] {
    const waits = [...this.#world.queues.values()].some(({ length }) => length > 0);
    const isAtRest = this.state.value === "at rest" && !waits;
    return this.#pattern.invariants.map(({ says, when, broken }) => {
      const evidence = broken(this.#world);
      const mayBe = when === "at rest" && !isAtRest;
      const verdict = evidence === undefined ? "holds" : mayBe ? "for now" : "broken";
      return { says, verdict, evidence };
    });
  }
}

/** What the library would log is seen in the requests. */
const QUIET = { onEvent: () => {} };

async function outcomeOf(action: Action, db: Database): Promise<string> {
  try {
    return await action.run(db);
  } catch (error) {
    if (isTableError(error) || error instanceof PortError) return `Refused: ${messageOf(error)}`;
    throw error;
  }
}

function messageOf(error: unknown): string {
  if (error instanceof PortError) return `${error.status} ${error.code}`;
  return error instanceof Error ? error.message : String(error);
}

function unmarked({ tables }: World): Shown["tables"] {
  return new Map(
    [...tables].map(([table, rows]) => [table, rows.map((row) => ({ row, mark: "" as const }))]),
  );
}

const keyOf = ({ partitionKey, rowKey }: StoredEntity) => `${partitionKey}\n${rowKey}`;

/** The rows of both, each with what happened to it in between. */
function marked(before: World, now: World): Shown["tables"] {
  const names = [...new Set([...before.tables.keys(), ...now.tables.keys()])].sort();
  return new Map(
    names.map((table): [string, MarkedRow[]] => {
      const old = new Map((before.tables.get(table) ?? []).map((row) => [keyOf(row), row]));
      const rows = (now.tables.get(table) ?? []).map((row): MarkedRow => {
        const known = old.get(keyOf(row));
        old.delete(keyOf(row));
        return { row, mark: !known ? "new" : known.etag === row.etag ? "" : "changed" };
      });
      for (const row of old.values()) rows.push({ row, mark: "gone" });
      return [table, rows.sort((a, b) => (keyOf(a.row) < keyOf(b.row) ? -1 : 1))];
    }),
  );
}

function changesIn(tables: Shown["tables"]): string {
  const lines: string[] = [];
  for (const [table, rows] of tables) {
    const count = (mark: MarkedRow["mark"]) => rows.filter((each) => each.mark === mark).length;
    const parts = (["new", "changed", "gone"] as const).flatMap((mark) =>
      count(mark) > 0 ? [`${count(mark)} ${mark}`] : [],
    );
    if (parts.length > 0) lines.push(`${table}: ${parts.join(", ")}`);
  }
  return lines.join("; ");
}
