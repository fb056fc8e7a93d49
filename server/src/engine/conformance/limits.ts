import assert from "node:assert/strict";
import { it } from "node:test";
import { COMMIT_KEYS_MAX, EngineError, type Key } from "../engine.ts";
import {
  absent,
  assertSameBytes,
  commit,
  getEntry,
  getText,
  key,
  mustCommit,
  patternBytes,
  put,
  scanAll,
  scanText,
  type WithEngine,
} from "./steps.ts";

const a = key("p", "a");
const b = key("p", "b");

export function testLimits(withEngine: WithEngine): void {
  const shapes: [name: string, of: (length: number) => Key][] = [
    ["all partition", (length) => key(new Array(length).fill(0x61), [])],
    ["all sort", (length) => key([], new Array(length).fill(0x61))],
    ["all partition, of zero bytes", (length) => key(new Array(length).fill(0), [])],
    ["all sort, of zero bytes", (length) => key([], new Array(length).fill(0))],
    ["all partition, of 255s", (length) => key(new Array(length).fill(255), [])],
    ["half partition and half sort, every other byte zero", (length) => halves(length)],
    [
      "nearly all partition, of zero bytes",
      (length) => key(new Array(length - 7).fill(0), [1, 2, 3, 4, 5, 6, 7]),
    ],
  ];
  for (const [name, of] of shapes) {
    it(`accepts a key of keyBytesMax, ${name}, and refuses a longer one`, () =>
      withEngine(async (engine) => {
        const longest = of(engine.keyBytesMax);
        await put(engine, longest, "1");
        assert.equal(await getText(engine, longest), "1");
        assert.equal((await scanAll(engine, { start: longest })).length, 1);

        const tooLong = of(engine.keyBytesMax + 1);
        await assertKeyTooLong(async () => engine.get([a, tooLong]));
        for (const steps of [
          { puts: [[tooLong, "2"]] as const },
          { deletes: [tooLong] },
          { checks: [absent(tooLong)] },
        ]) {
          const others = [[a, "2"]] as const;
          const puts = [...others, ...(steps.puts ?? [])];
          await assertKeyTooLong(() => commit(engine, { ...steps, puts }));
        }
        assert.equal((await scanAll(engine)).length, 1);
        await mustCommit(engine, { deletes: [longest] });
        assert.equal((await scanAll(engine)).length, 0);
      }));
  }

  for (const length of [0, 1, 2048, 1 << 20, 4 << 20]) {
    it(`stores a value of ${length} bytes`, () =>
      withEngine(async (engine) => {
        const value = patternBytes(length);
        await put(engine, a, value);
        await put(engine, b, "neighbour");
        const entry = await getEntry(engine, a);
        assertSameBytes(entry!.value, value);
        const [scanned] = await scanAll(engine);
        assertSameBytes(scanned!.value, value);
      }));
  }

  it("refuses a commit of more than COMMIT_KEYS_MAX keys, which would be a bug of the caller", () =>
    withEngine(async (engine) => {
      const keys = Array.from({ length: COMMIT_KEYS_MAX + 1 }, (_, i) => key("many", `${i}`));
      await assert.rejects(commit(engine, { deletes: keys }), assert.AssertionError);
      await mustCommit(engine, { deletes: keys.slice(1) });
    }));

  it("accepts a commit of 1,000 puts", () =>
    withEngine(async (engine) => {
      const puts = Array.from({ length: 1000 }, (_, index) => {
        return [key("p", `${index}`.padStart(4, "0")), `${index}`] as const;
      });
      await mustCommit(engine, { checks: puts.map(([each]) => absent(each)), puts });
      const entries = await scanText(engine);
      assert.deepEqual(
        entries,
        puts.map(([, value]) => `p/${value.padStart(4, "0")}=${value}`),
      );
    }));
}

function halves(length: number): Key {
  const all = Array.from({ length }, (_, index) => (index % 2 === 0 ? 0 : 7));
  return key(all.slice(0, length >> 1), all.slice(length >> 1));
}

async function assertKeyTooLong(call: () => Promise<unknown>): Promise<void> {
  await assert.rejects(
    call,
    (error) => error instanceof EngineError && error.code === "KeyTooLong",
  );
}
