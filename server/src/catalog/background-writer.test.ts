import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EngineError, type EngineErrorCode } from "../engine/engine.ts";
import { BackgroundWriter } from "./background-writer.ts";

describe("A background writer", () => {
  it("gives back a part that fails as Corrupt, and writes the parts after it", () =>
    check({ b: "Corrupt" }, { written: ["a", "c"], kept: ["b"] }));

  it("gives back a part that fails as Unavailable, and all parts after it", () =>
    check({ b: "Unavailable" }, { written: ["a"], kept: ["b", "c"] }));

  it("starts no part more than ten seconds after close, even if the clock is set ahead", async () => {
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
