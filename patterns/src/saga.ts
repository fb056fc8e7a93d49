import type { Database } from "./database.ts";
import { assertSome, definitionRefused, isTableError, validationFailed } from "./errors.ts";
import { k } from "./keys/key.ts";
import { KeyShape } from "./keys/key-shape.ts";
import { textOf } from "./messages/large-message.ts";
import { type Message, messageOf } from "./messages/message.ts";
import { assertKeyFits } from "./model/entity-rows.ts";
import { assertNames, assertTable } from "./model/storage-name.ts";
import { type Properties, text } from "./ports/edm.ts";
import { Fatal, type Handler, type HandlerContext, later } from "./queue-worker.ts";

export type { Json } from "./store/json-row.ts";

import { queuesOf } from "./store/connected-ports.ts";
import { type Json, type JsonRow, jsonRow, readJson, writeJson } from "./store/json-row.ts";

export interface StepContext<Input, Results> {
  readonly input: Input;
  /** What the earlier steps returned, by name. */
  readonly results: Results;
  readonly db: Database;
  readonly signal: AbortSignal;
  /**
   * The same for every attempt of this step of this saga. Pass it on wherever a repeated effect must be
   * recognized.
   */
  readonly stepKey: string;
}

export interface SagaStart {
  /** Declares the type of the input that the saga is started with. */
  input<Input extends Json>(): SagaBuilder<Input, unknown>;
}

/** Steps may run more than once, so each step must be idempotent, and so must its undo. */
export interface SagaBuilder<Input, Results> {
  /** Adds a step. What `run` returns is stored as JSON: dates come back as text. */
  step<const Name extends string, Result>(
    name: Name,
    run: (context: StepContext<Input, Results>) => Promise<Result>,
    undo?: (
      context: StepContext<Input, Results & { readonly [N in Name]: Result }>,
    ) => Promise<unknown>,
  ): SagaBuilder<Input, Results & { readonly [N in Name]: Result }>;
}

/** Returned by a step to repeat an earlier one, because what it found is out of date. */
export class BackTo {
  readonly step: string;

  constructor(step: string) {
    this.step = step;
  }
}

/** `return backTo("copy")` from a later step. A name that no step has ends the saga, as `Fatal` does. */
export function backTo(step: string): BackTo {
  return new BackTo(step);
}

export interface SagaOptions {
  /** Increase it when the steps change: a running saga is not continued by other code. Default: 1. */
  readonly version?: number;
  /** The table of the states. Default: "Sagas". */
  readonly table?: string;
  /** The queue that the worker receives from. Default: "work". */
  readonly queue?: string;
}

export interface SagaState {
  readonly status: "running" | "undoing" | "done" | "undone";
  /** The index of the next step or, while undoing, of the step to undo. */
  readonly next: number;
  readonly results: Readonly<Record<string, unknown>>;
  /** Why it is being undone. */
  readonly error?: string;
}

interface Step {
  readonly name: string;
  run(context: StepContext<never, never>): Promise<unknown>;
  undo?: ((context: StepContext<never, never>) => Promise<unknown>) | undefined;
}

/**
 * Declares a sequence of steps that are all completed in the end, despite crashes. When one fails permanently
 * (`Fatal`, validation-failed), the completed steps are undone in reverse order.
 */
export function saga<Input extends Json, Results>(
  name: string,
  build: (saga: SagaStart) => SagaBuilder<Input, Results>,
  options: SagaOptions = {},
): Saga<Input> {
  const steps: Step[] = [];
  const builder = {
    input: () => builder,
    step(name: string, run: Step["run"], undo?: Step["undo"]) {
      steps.push({ name, run, undo });
      return builder;
    },
  };
  // Here the types of the steps meet the untyped list of them.
  build(builder as unknown as SagaStart);
  return new Saga<Input>(name, steps, options);
}

/**
 * Reads something that a saga moves from one place to another. It reads the source first: in the other order
 * both reads can miss it.
 */
export async function readMoved<Key, Found>(
  source: { get(key: Key): Promise<Found | undefined> },
  destination: { get(key: Key): Promise<Found | undefined> },
  key: Key,
): Promise<Found | undefined> {
  return (await source.get(key)) ?? (await destination.get(key));
}

interface StoredState extends SagaState {
  readonly version: number;
  readonly input: Json;
}

const PARTITION = new KeyShape([k.lit("saga"), k.str("id")]);
const ROW_KEY = "state";
const BUSY_MS = 5000;
const RETRY_MS = 2000;
/** What a property holds, less room for the error. */
const STATE_LENGTH_MAX = 32_000;
const ERROR_LENGTH_MAX = 300;

export class Saga<Input extends Json> implements Handler {
  readonly kind: string;
  readonly tables: readonly string[];
  readonly queues: readonly string[];
  readonly #name: string;
  readonly #steps: readonly Step[];
  readonly #version: number;
  readonly #table: string;
  readonly #queue: string;

  constructor(name: string, steps: readonly Step[], options: SagaOptions) {
    this.kind = `saga ${name}`;
    this.#name = name;
    this.#steps = steps;
    this.#version = options.version ?? 1;
    this.#table = options.table ?? "Sagas";
    this.#queue = options.queue ?? "work";
    this.tables = [this.#table];
    this.queues = [this.#queue];
    assertNames(`The saga ${name}`, { queue: this.#queue });
    assertTable(`The saga ${name}`, this.#table);
    assertSome(`The saga ${name}`, { version: this.#version }, definitionRefused);
    const names = new Set(steps.map((step) => step.name));
    if (names.size < steps.length || steps.length === 0) {
      throw validationFailed(
        `The saga ${name}`,
        "steps",
        "at least one is needed, each with a unique name",
      );
    }
  }

  /**
   * Sends one message. Starting the same id twice is one saga; the first input counts.
   * @throws validation-failed for an input that the state cannot hold, key-too-long for an id that is too long.
   */
  async start(
    database: Database,
    begin: { readonly id: string; readonly input: Input },
  ): Promise<void> {
    const { id, input }: typeof begin = Object(begin);
    // Checks the id here; otherwise only a worker would find it invalid.
    this.#row(database, id);
    const length = lengthOf(this.#begun(input));
    if (length > STATE_LENGTH_MAX) {
      const message = `its state takes ${length} characters; at most ${STATE_LENGTH_MAX} are allowed`;
      throw validationFailed(`The saga ${this.#name}`, "input", message);
    }
    const message = messageOf(database, { kind: this.kind, key: id, body: input });
    await queuesOf(database).send(this.#queue, textOf(message));
  }

  /** Undefined until a worker has begun it. */
  async state(database: Database, id: string): Promise<SagaState | undefined> {
    return (await readJson(this.#row(database, id)))?.value;
  }

  /** @throws Fatal when another version of the code began it; the error of a step, for a retry. */
  async handle({ key: id, body }: Message, context: HandlerContext): Promise<unknown> {
    const { database } = context;
    const input = body as Json;
    const begun = this.#begun(input);
    const row = this.#row(database, id);
    let found = await readJson(row);
    found ??= await writeJson(row, begun, undefined, this.#labels(begun));
    for (let isBegun = false; ; isBegun = true) {
      // Another worker has it, or had it until now.
      if (!found) return later(BUSY_MS);
      const { value: state } = found;
      if (state.status === "done" || state.status === "undone") return undefined;
      if (state.version !== this.#version) {
        throw new Fatal(
          `${this.#name} ${id} was started by version ${state.version}; this is ${this.#version}.`,
        );
      }
      context.signal.throwIfAborted();
      const next = await this.#advance(id, state, context).catch((error) => {
        // A step has completed since the message was received, so the dequeue count must start over for the
        // next one.
        if (isBegun) return undefined;
        throw error;
      });
      if (!next) return later(RETRY_MS);
      found = await writeJson(row, next, found, this.#labels(next));
    }
  }

  /** Does or undoes one step. */
  async #advance(id: string, state: StoredState, context: HandlerContext): Promise<StoredState> {
    const { status, next, results, input } = state;
    const step = this.#steps[next]!;
    const stepContext = {
      input,
      results,
      db: context.database,
      signal: context.signal,
      stepKey: `${id}/${step.name}`,
      // The types of input and results are those the steps were declared with.
    } as StepContext<never, never>;
    if (status === "undoing") {
      await step.undo?.(stepContext);
      return next === 0 ? { ...state, status: "undone" } : { ...state, next: next - 1 };
    }
    try {
      const result = (await step.run(stepContext)) ?? null;
      if (result instanceof BackTo) {
        const next = this.#steps.findIndex(({ name }) => name === result.step);
        if (next < 0)
          throw new Fatal(`${step.name} goes back to "${result.step}", which is not a step.`);
        return { ...state, next };
      }
      const isLast = next + 1 === this.#steps.length;
      const done: StoredState = {
        ...state,
        status: isLast ? "done" : "running",
        next: next + 1,
        results: { ...results, [step.name]: result },
      };
      const length = lengthOf(done);
      if (length <= STATE_LENGTH_MAX) return done;
      // It has run, but what it returned cannot be stored for a later undo, so it is undone now.
      await step.undo?.({ ...stepContext, results: done.results } as StepContext<never, never>);
      throw new Fatal(
        `With the result of ${step.name}, the state takes ${length} characters; at most ${STATE_LENGTH_MAX} are allowed.`,
      );
    } catch (cause) {
      if (!(cause instanceof Fatal) && !isTableError(cause, "validation-failed")) throw cause;
      const undoing = { ...state, error: String(cause).slice(0, ERROR_LENGTH_MAX) };
      return next === 0
        ? { ...undoing, status: "undone" }
        : { ...undoing, status: "undoing", next: next - 1 };
    }
  }

  #begun(input: Json): StoredState {
    return { status: "running", version: this.#version, next: 0, results: {}, input };
  }

  #row(database: Database, id: string): JsonRow<StoredState> {
    if (typeof id !== "string") {
      throw validationFailed(`The saga ${this.#name}`, "id", "text is expected");
    }
    const partitionKey = PARTITION.encode({ id: `${this.#name}/${id}` });
    const key = { partitionKey, rowKey: ROW_KEY };
    assertKeyFits(key, database.profile);
    return jsonRow(database, this.#table, key, "state");
  }

  /** For people who look for a saga, next to the state. */
  #labels({ status }: StoredState): Properties {
    return { name: text(this.#name), status: text(status) };
  }
}

function lengthOf(state: StoredState): number {
  return JSON.stringify(state).length;
}
