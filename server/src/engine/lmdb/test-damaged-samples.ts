/** The entries of data files that tests damage, and what a reader may say of them. */
import { patternBytes } from "../conformance/steps.ts";
import { EngineError, type Key } from "../engine.ts";
import { EVERYTHING, equalBytes } from "../key-codec.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";

export const SAMPLES = 300;
/** On a page with others, and on overflow pages of their own. */
const LENGTHS = [30, 200, 1100, 5000, 20_000];

export function sampleKey(index: number): Key {
  return {
    partition: Buffer.from("part"),
    sort: Buffer.from(`row-${`${index}`.padStart(5, "0")}`),
  };
}

/** Begins with what no key and no other value contains. */
export function sampleValue(index: number): Uint8Array {
  return Buffer.concat([sampleMark(index), patternBytes(LENGTHS[index % LENGTHS.length]! + index)]);
}

export function sampleMark(index: number): Buffer {
  return Buffer.from(`row-${`${index}`.padStart(5, "0")}=`);
}

export interface Reading {
  /** Answers that are neither right nor a refusal. */
  readonly wrong: readonly string[];
  /** Whether anything was refused or reported. */
  readonly isNoticed: boolean;
}

/** Reads everything in every way. */
export async function readSamples(path: string): Promise<Reading> {
  const wrong: string[] = [];
  let isNoticed = false;
  const refused = (error: unknown) => {
    if (!(error instanceof EngineError && error.code === "Corrupt")) throw error;
    isNoticed = true;
  };
  for (const walksMap of [true, false]) {
    let engine: Awaited<ReturnType<typeof openLmdbEngine>>;
    try {
      engine = await openLmdbEngine({ path, walksMap });
    } catch (error) {
      refused(error);
      continue;
    }
    const check = (what: string, key: Key, value: Uint8Array) => {
      const index = Number(Buffer.from(key.sort).toString("latin1").slice(4));
      const isRight =
        index < SAMPLES &&
        equalBytes(key.sort, sampleKey(index).sort) &&
        equalBytes(value, sampleValue(index));
      if (!isRight) wrong.push(`${what} ${Buffer.from(key.sort).toString("latin1")}`);
      return isRight;
    };
    for (const onDamaged of [refused, undefined]) {
      let found = 0;
      let hasFailed = false;
      const visit = ({ key, value }: { key: Key; value: Uint8Array }) => {
        if (check("scan", key, value)) found++;
        return true;
      };
      try {
        await engine.scan(EVERYTHING, visit, { onDamaged });
      } catch (error) {
        hasFailed = true;
        refused(error);
      }
      if (found < SAMPLES && !hasFailed && !isNoticed) wrong.push(`scan found ${found}`);
    }
    for (let index = 0; index < SAMPLES; index++) {
      try {
        const key = sampleKey(index);
        const [entry] = engine.get([key]);
        // A damaged key is not found; the scan has noticed it.
        if (entry) check("get", key, entry.value);
        else if (!isNoticed) wrong.push(`get ${index}: absent`);
      } catch (error) {
        refused(error);
      }
    }
    await engine.close();
  }
  return { wrong, isNoticed };
}
