import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EngineError, type EngineErrorCode } from "../engine/engine.ts";
import { BackgroundWriter } from "./background-writer.ts";

describe("A background writer", () => {
  it("writes what stands behind a part whose data is damaged, and keeps that part", () =>
    check({ b: "Corrupt" }, { written: ["a", "c"], kept: ["b"] }));

  it("leaves what stands behind a part for which the engine was away", () =>
    check({ b: "Unavailable" }, { written: ["a"], kept: ["b", "c"] }));

  it("writes for ten seconds at the end, however the clock is set meanwhile", async () => {
    const clock = { at: 0, ms: 0, now: () => clock.at, elapsed: () => clock.ms };
    const written: string[] = [];
    const errors: unknown[] = [];
    const writer: BackgroundWriter<string> = new BackgroundWriter<string>({
      ...{ clock, name: "letters" },
      run: () => writer.write(["a", "b", "c"]),
      prepare: async () => {
        clock.at += 3_600_000;
        clock.ms += 5001;
      },
      put: async () => {},
      written: (part) => written.push(part),
      giveBack() {},
      onError: (error) => errors.push(error),
    });
    await writer.close();
    assert.deepEqual(written, ["a", "b"]);
    assert.match(String(errors), /1 letters were not written/);
  });
});

async function check(
  failing: Record<string, EngineErrorCode>,
  expected: { written: string[]; kept: string[] },
): Promise<void> {
  const written: string[] = [];
  const kept: string[] = [];
  const writer = new BackgroundWriter<string>({
    ...{ clock: { now: () => 0 }, name: "letters" },
    run: async () => {},
    prepare: async () => {},
    put: async (part) => {
      const code = failing[part];
      if (code) throw new EngineError(code, "Told to fail.");
    },
    written: (part) => written.push(part),
    giveBack: (part) => kept.push(part),
    onError() {},
  });
  const [code] = Object.values(failing);
  await assert.rejects(writer.write(["a", "b", "c"]), { code });
  assert.deepEqual({ written, kept }, expected);
}
