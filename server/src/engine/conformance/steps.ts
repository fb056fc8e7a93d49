import assert from "node:assert/strict";
import type { Clock } from "../../clock.ts";
import type {
  Check,
  CommitResult,
  Engine,
  Entry,
  Key,
  KeyRange,
  Premise,
  ScanEnd,
} from "../engine.ts";
import { after, equalBytes } from "../key-codec.ts";

/** The vocabulary of the conformance tests. */

/** An engine and how to open it. */
export interface EngineUnderTest {
  readonly name: string;
  /** Opens a new, empty engine. */
  open(options: { clock: Clock }): Promise<Engine>;
  /** Opens the data that `closed` held when it was closed. Absent if the engine keeps nothing. */
  reopen?(closed: Engine, options: { clock: Clock }): Promise<Engine>;
  /** Removes what `closed` leaves behind: its files, its tables. */
  discard?(closed: Engine): Promise<void>;
}

/** Runs `test` with an engine of its own, which is closed and discarded afterwards. */
export type WithEngine = (test: (engine: Engine) => Promise<void>) => Promise<void>;

export const EMPTY_KEY = key("", "");

/** Text stands for its UTF-8 bytes, numbers for themselves. */
export function key(partition: string | readonly number[], sort: string | readonly number[]): Key {
  return { partition: bytes(partition), sort: bytes(sort) };
}

export function bytes(from: string | readonly number[]): Uint8Array {
  return typeof from === "string" ? new TextEncoder().encode(from) : Uint8Array.from(from);
}

/** Bytes that vary with their position, so that a shift or a cut shows. */
export function patternBytes(length: number): Uint8Array {
  const pattern = new Uint8Array(length);
  for (let index = 0; index < length; index++) pattern[index] = index * 31 + (index >> 8);
  return pattern;
}

/** Prints no megabytes when it fails. */
export function assertSameBytes(actual: Uint8Array, expected: Uint8Array): void {
  assert.ok(
    equalBytes(actual, expected),
    `${actual.length} bytes are not the ${expected.length} bytes expected.`,
  );
}

/**
 * Always passes a message: without one, `assert.ok` parses the source file to show the expression, which
 * takes minutes if the file is one long line, as the loader on Node 20 makes it.
 */
export function assertAbove(actual: number, limit: number): void {
  assert.ok(actual > limit, `${actual} is not above ${limit}.`);
}

export interface Steps {
  readonly checks?: readonly Check[];
  readonly puts?: readonly (readonly [key: Key, value: string | Uint8Array])[];
  readonly deletes?: readonly Key[];
  readonly version?: number;
  readonly premise?: Premise;
  readonly heldAt?: number | undefined;
}

export function commit(engine: Engine, steps: Steps): Promise<CommitResult> {
  return engine.commit({
    version: steps.version ?? engine.nextVersion(),
    checks: steps.checks ?? [],
    puts: (steps.puts ?? []).map(([key, value]) => ({
      key,
      value: typeof value === "string" ? bytes(value) : value,
    })),
    deletes: steps.deletes ?? [],
    premise: steps.premise,
    heldAt: steps.heldAt,
  });
}

/** A commit that must succeed. */
export async function mustCommit(engine: Engine, steps: Steps): Promise<readonly number[]> {
  const result = await commit(engine, steps);
  assert.ok(result.committed, `Check ${result.committed || result.failedCheck} failed.`);
  return result.versions;
}

/** Puts one entry and returns its version. */
export async function put(engine: Engine, at: Key, value: string | Uint8Array): Promise<number> {
  const [version] = await mustCommit(engine, { puts: [[at, value]] });
  assert.ok(version !== undefined, "A put returned no version.");
  return version;
}

export async function getEntry(engine: Engine, at: Key): Promise<Entry | undefined> {
  const [entry] = await engine.get([at]);
  return entry;
}

/** The text stored under a key; undefined when the key is absent. */
export async function getText(engine: Engine, at: Key): Promise<string | undefined> {
  const entry = await getEntry(engine, at);
  return entry && text(entry.value);
}

export function text(value: Uint8Array): string {
  return new TextDecoder().decode(value);
}

/** One call of `scan`: its result and copies of the entries it visited. */
export async function scanOnce(
  engine: Engine,
  range: KeyRange,
  goOn: (entry: Entry) => boolean = () => true,
): Promise<{ entries: Entry[]; end: ScanEnd }> {
  const entries: Entry[] = [];
  const end = await engine.scan(range, (entry) => {
    entries.push(copyEntry(entry));
    return goOn(entry);
  });
  return { entries, end };
}

/** The whole range, in as many calls as the engine needs. */
export async function scanAll(
  engine: Engine,
  range: KeyRange = { start: EMPTY_KEY },
): Promise<Entry[]> {
  const all: Entry[] = [];
  for (let rest = range; ; ) {
    const { entries, end } = await scanOnce(engine, rest);
    all.push(...entries);
    if (typeof end === "string") {
      assert.equal(end, "complete");
      return all;
    }
    rest = { start: end.resumeAt, end: range.end };
  }
}

/** Keys and text values of a range, in the form `partition/sort=value`. */
export async function scanText(engine: Engine, range?: KeyRange): Promise<string[]> {
  const entries = await scanAll(engine, range);
  return entries.map(({ key, value }) => `${text(key.partition)}/${text(key.sort)}=${text(value)}`);
}

function copyEntry({ key, value, version }: Entry): Entry {
  return {
    key: { partition: Uint8Array.from(key.partition), sort: Uint8Array.from(key.sort) },
    value: Uint8Array.from(value),
    version,
  };
}

/** A range that contains these two keys and the keys between them. */
export function between(first: Key, last: Key): KeyRange {
  return { start: first, end: after(last) };
}

export function absent(at: Key): Check {
  return { key: at, expected: "absent" };
}

export function present(at: Key): Check {
  return { key: at, expected: "present" };
}

export function atVersion(at: Key, version: number): Check {
  return { key: at, expected: version };
}

/** Keeps the processor busy, as a slow visitor would. */
export function busyWait(milliseconds: number): void {
  const until = performance.now() + milliseconds;
  while (performance.now() < until);
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
