import assert from "node:assert/strict";
import { it } from "node:test";
import { type Change, type Engine, EngineError, type Key } from "../engine.ts";
import {
  assertAbove,
  bytes,
  getEntry,
  getText,
  key,
  put,
  scanAll,
  scanText,
  text,
  type WithEngine,
} from "./steps.ts";

const a = key("p", "a");
const b = key("p", "b");

export function testUpdates(withEngine: WithEngine): void {
  it("stores the result of the change, applied to the current value or to none", () =>
    withEngine(async (engine) => {
      const update = updateOf(engine);
      if (!update) return;
      const first = await update(a, appending("1"));
      const second = await update(a, appending("2"));
      assert.equal(text(second.value), "12");
      assertAbove(second.version, first.version);
      const entry = await getEntry(engine, a);
      assert.equal(text(entry!.value), "12");
      assert.equal(entry!.version, second.version);
    }));

  it("passes the change the version that the entry will have, above any earlier one", () =>
    withEngine(async (engine) => {
      const before = await put(engine, a, "1");
      const update = updateOf(engine);
      if (!update) return;
      let passed = 0;
      const { version } = await update(a, (_current, version) => {
        passed = version;
        return bytes("2");
      });
      assert.equal(passed, version);
      assertAbove(version, before);
    }));

  it("loses none of many concurrent changes", () =>
    withEngine(async (engine) => {
      const update = updateOf(engine);
      if (!update) return;
      const changes = Array.from({ length: 40 }, (_, index) => update(a, appending(`${index},`)));
      await Promise.all(changes);
      const seen = (await getText(engine, a))!.split(",").slice(0, -1);
      assert.equal(seen.length, 40);
      assert.equal(new Set(seen).size, 40);
    }));

  it("writes nothing and fails with the same error when the change throws; other updates succeed", () =>
    withEngine(async (engine) => {
      const update = updateOf(engine);
      if (!update) return;
      await put(engine, a, "1");
      const refusal = new Error("Not this one.");
      const refused = update(a, () => {
        throw refusal;
      });
      const others = [update(a, appending("2")), update(b, appending("3"))];
      await assert.rejects(refused, (error) => error === refusal);
      await Promise.all(others);
      assert.deepEqual(await scanText(engine), ["p/a=12", "p/b=3"]);
    }));

  it("refuses a key that is too long, and writes nothing", () =>
    withEngine(async (engine) => {
      const update = updateOf(engine);
      if (!update) return;
      const long = key("p", "s".repeat(engine.keyBytesMax + 1));
      await assert.rejects(
        update(long, appending("1")),
        (error) => error instanceof EngineError && error.code === "KeyTooLong",
      );
      assert.deepEqual(await scanAll(engine), []);
    }));
}

/** Undefined if the engine does not support `update`: it then has no promise to keep here. */
function updateOf(engine: Engine) {
  return (
    engine.supports.update &&
    (async (at: Key, change: Change) => {
      const updated = await engine.update!(at, change);
      assert.ok(updated, "An update without a premise was refused.");
      return updated;
    })
  );
}

function appending(more: string): Change {
  return (current) => bytes((current ? text(current) : "") + more);
}
