import { open, type RootDatabase } from "lmdb";
import { answerCommands } from "../harness/bench-process.ts";
import type { Window } from "../harness/contender.ts";
import type { Figures } from "../harness/figures.ts";
import { Stopwatch } from "../harness/stopwatch.ts";
import { BLOCK_BYTES } from "../load/blob-workloads.ts";
import { entityJson, PARTITION_ENTITIES, partitionKey, rowKey } from "../load/dataset.ts";
import { Client } from "../load/workload.ts";

/** One environment for each directory, opened and filled when it is first named. */
export interface RawCommand extends Window {
  readonly directory: string;
  readonly entities: number;
  /** Whether the binding copies the keys and values it reads, which is its default. */
  readonly copies: boolean;
  readonly clients: number;
  readonly run: number;
  readonly work: RawWork;
}

/** Reads of `rows` neighboring entries that touch each value, or commits of `puts` entries. */
export type RawWork =
  | { readonly kind: "read"; readonly rows: number }
  | { readonly kind: "commit"; readonly puts: number; readonly keys: "new" | "existing" }
  /** A commit of one block to the end of one of this many logs. */
  | { readonly kind: "append"; readonly logs: number }
  /** Two commits: a new entry, then its removal. */
  | { readonly kind: "put and remove" };

type Environment = RootDatabase<Uint8Array, Buffer>;

let current: { directory: string; environment: Environment } | undefined;

answerCommands<RawCommand, Figures>(async (command) => {
  const environment = await environmentFor(command);
  const stopwatch = new Stopwatch(command, command.clients);
  const { work } = command;
  if (work.kind === "read") {
    await read(environment, command, work.rows, stopwatch);
  } else {
    const commit = commitOf(work, command);
    await Promise.all(
      Array.from({ length: command.clients }, (_, index) =>
        commitLoop(environment, new Client(index, command.run), commit, command, stopwatch),
      ),
    );
  }
  return stopwatch.figures();
});

async function environmentFor({ copies, directory, entities }: RawCommand): Promise<Environment> {
  if (current?.directory === directory) return current.environment;
  await current?.environment.close();
  const environment = open<Uint8Array, Buffer>({
    path: directory,
    pageSize: 8192,
    // As in Rowhouse's engine, the flush is part of the commit: a promise that resolves is durable.
    overlappingSync: false,
    ...(copies ? COPYING : LENDING),
  });
  current = { directory, environment };
  if (environment.getBinaryFast(keyOf(0)) === undefined) await fill(environment, entities);
  return environment;
}

const UNREAD_KEY = Buffer.alloc(0);
const COPYING = { encoding: "binary", keyEncoding: "binary" } as const;

/** Values stay in the binding's buffer until it reads the next one; keys are not read at all. */
const LENDING = {
  keyEncoder: { writeKey, readKey: () => UNREAD_KEY },
  encoder: { encode: (value: Uint8Array) => value, decode: (value: Uint8Array) => value },
};

function writeKey(key: Buffer, target: Uint8Array, start: number): number {
  target.set(key, start);
  return start + key.length;
}

async function fill(environment: Environment, entities: number): Promise<void> {
  for (let first = 0; first < entities; first += PARTITION_ENTITIES) {
    await environment.batch(() => {
      for (let i = first; i < first + PARTITION_ENTITIES; i++) {
        environment.put(keyOf(i), bytesOf(i));
      }
    });
  }
}

function keyOf(index: number, suffix = ""): Buffer {
  return Buffer.from(`00${partitionKey(index)}\0${rowKey(index)}${suffix}`, "latin1");
}

function bytesOf(index: number): Buffer {
  return Buffer.from(entityJson(index), "latin1");
}

async function read(
  environment: Environment,
  command: RawCommand,
  rows: number,
  stopwatch: Stopwatch,
): Promise<void> {
  const client = new Client(0, command.run);
  const starts = Math.floor(command.entities / rows);
  for (let turn = 1; stopwatch.goesOn(); turn++) {
    const startedAt = performance.now();
    const first = rows === 1 ? client.random(command.entities) : client.random(starts) * rows;
    if (rows === 1) touch(environment.getBinaryFast(keyOf(first)));
    else touchRange(environment, first, rows);
    stopwatch.record(performance.now() - startedAt, 0);
    // lmdb-js renews its read transaction between turns of the event loop.
    if (turn % 32 === 0 || rows > 1) await new Promise(setImmediate);
  }
}

function touchRange(environment: Environment, first: number, rows: number): void {
  let found = 0;
  const range = { start: keyOf(first), end: keyOf(first + rows - 1, "~") };
  for (const { value } of environment.getRange(range)) {
    touch(value);
    found++;
  }
  if (found < rows) throw new Error(`${found} of ${rows} entries were read.`);
}

/** Reads the first and the last byte, so that the value's pages are really loaded. */
function touch(value: Uint8Array | undefined): void {
  if (value?.[0] !== OPENING_BRACE || value[value.length - 1] !== CLOSING_BRACE) {
    throw new Error("An entry is missing.");
  }
}

const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

type Commit = (environment: Environment, client: Client, command: RawCommand) => Promise<unknown>;

function commitOf(work: Exclude<RawWork, { kind: "read" }>, { entities }: RawCommand): Commit {
  if (work.kind === "put and remove") return passingKeys;
  if (work.kind === "append") return endsOf(work.logs);
  return work.keys === "new" ? newKeys(work.puts) : existingKeys(entities);
}

async function commitLoop(
  environment: Environment,
  client: Client,
  commit: Commit,
  command: RawCommand,
  stopwatch: Stopwatch,
): Promise<void> {
  while (stopwatch.goesOn()) {
    const startedAt = performance.now();
    await commit(environment, client, command);
    stopwatch.record(performance.now() - startedAt, client.index);
  }
}

function existingKeys(entities: number): Commit {
  return (environment, client) => {
    const index = client.random(entities);
    return environment.put(keyOf(index), bytesOf(index));
  };
}

function endsOf(logs: number): Commit {
  const block = Buffer.alloc(
    BLOCK_BYTES,
    "a line of a log, which is written and never changed again\n",
  );
  let ends = 0;
  return (environment, { index, run }) => {
    const end = String(ends++).padStart(9, "0");
    return environment.put(Buffer.from(`log-${run}-${index % logs}-${end}`, "latin1"), block);
  };
}

const passingKeys: Commit = async (environment, client, { entities }) => {
  const index = client.random(entities);
  const key = keyOf(index, client.newRowSuffix());
  await environment.put(key, bytesOf(index));
  await environment.remove(key);
};

/** Neighbors of a random entry, all in one transaction, placed as `Requests.insert` places them. */
function newKeys(puts: number): Commit {
  return (environment, client, { entities }) => {
    const index = client.random(entities);
    const suffix = client.newRowSuffix();
    if (puts === 1) return environment.put(keyOf(index, suffix), bytesOf(index));
    return environment.batch(() => {
      for (let i = 0; i < puts; i++) {
        const end = `${suffix}-${String(i).padStart(3, "0")}`;
        environment.put(keyOf(index, end), bytesOf(index + i));
      }
    });
  };
}
