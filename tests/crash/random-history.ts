import type { AtomicWrite, Check, Key } from "@rowhouse/server/engine/engine";
import { seededRandom } from "../support/seeded-random.ts";

/**
 * A history of commits that depends only on its seed, so that the killed process and the one that checks the
 * result know the same history. Each writer has its own partition and commits one step after the other; the
 * number of steps taken determines what the partition must contain.
 */
export interface Step {
  readonly kind: "put" | "delete" | "transaction" | "refused";
  readonly checks: readonly Check[];
  readonly puts: ReadonlyMap<string, string>;
  readonly deletes: readonly string[];
}

/** The contents of a partition: its values by sort part. */
export type Partition = ReadonlyMap<string, string>;

const SORTS = 24;
const KINDS = ["put", "put", "delete", "transaction", "transaction", "refused"] as const;

export function* stepsOf(seed: number, writer: number): Generator<Step & { after: Partition }> {
  const random = seededRandom(seed * 1000 + writer);
  const held = new Map<string, string>();
  for (let index = 0; ; index++) {
    const step = randomStep(random, writer, held, `${index}`);
    if (step.kind !== "refused") {
      for (const [sort, value] of step.puts) held.set(sort, value);
      for (const sort of step.deletes) held.delete(sort);
    }
    yield { ...step, after: new Map(held) };
  }
}

/** The step in the engine's form. Values are long enough to spread over several pages. */
export function writeOf(step: Step, writer: number, version: number): AtomicWrite {
  return {
    version,
    checks: step.checks,
    puts: Array.from(step.puts, ([sort, value]) => ({
      key: keyOf(writer, sort),
      value: Buffer.from(value.padEnd(100 + (sort.charCodeAt(1) % 7) * 400, ".")),
    })),
    deletes: step.deletes.map((sort) => keyOf(writer, sort)),
  };
}

export function keyOf(writer: number, sort: string): Key {
  return { partition: Buffer.from(`writer${writer}`), sort: Buffer.from(sort) };
}

/** The inverse of `writeOf` for a value. */
export function textOf(stored: Uint8Array): string {
  return Buffer.from(stored).toString().replace(/\.*$/, "");
}

function randomStep(random: () => number, writer: number, held: Partition, value: string): Step {
  const sorts = new Set<string>();
  const kind = pick(random, KINDS);
  const wanted = kind === "put" ? 1 : 1 + Math.floor(random() * 8);
  while (sorts.size < wanted)
    sorts.add(`k${String(Math.floor(random() * SORTS)).padStart(2, "0")}`);
  const checks = Array.from(sorts, (sort): Check => {
    return { key: keyOf(writer, sort), expected: held.has(sort) ? "present" : "absent" };
  });
  switch (kind) {
    case "put":
      return {
        kind,
        checks: [],
        puts: new Map(Array.from(sorts, (sort) => [sort, value])),
        deletes: [],
      };
    case "delete":
      return { kind, checks: [], puts: new Map(), deletes: [...sorts] };
    case "transaction": {
      const [first = "", ...others] = sorts;
      return { kind, checks, puts: new Map(others.map((sort) => [sort, value])), deletes: [first] };
    }
    case "refused": {
      const wrong = checks.map(({ key, expected }): Check => {
        return { key, expected: expected === "present" ? "absent" : "present" };
      });
      return {
        kind,
        checks: wrong,
        puts: new Map(Array.from(sorts, (sort) => [sort, value])),
        deletes: [],
      };
    }
  }
}

function pick<T>(random: () => number, from: readonly T[]): T {
  return from[Math.floor(random() * from.length)]!;
}
