import assert from "node:assert/strict";
import { it } from "node:test";
import type { Engine, Supports } from "../engine.ts";
import { compareKeys } from "../key-codec.ts";
import { key, mustCommit, put, text, type WithEngine } from "./steps.ts";

const MEMBERS: { readonly [F in keyof Supports]: readonly (keyof Engine)[] } = {
  update: ["update"],
  scanRanges: ["scanRanges"],
  sharing: ["takeSlot", "isShared"],
  sealing: ["sealing"],
  freePremises: [],
};

export function testSupports(withEngine: WithEngine): void {
  it("are declared: the engine has the members of what it supports, and no others", () =>
    withEngine(async (engine) => {
      const declared: Partial<Record<keyof Engine, boolean>> = {};
      const found: Partial<Record<keyof Engine, boolean>> = {};
      for (const feature of Object.keys(MEMBERS) as (keyof Supports)[]) {
        for (const member of MEMBERS[feature]) {
          declared[member] = engine.supports[feature];
          found[member] = engine[member] !== undefined;
        }
      }
      assert.deepEqual(found, declared);
    }));

  it("several ranges: scans them in order, to the end or until visit returns false", () =>
    withEngine(async (engine) => {
      if (!engine.supports.scanRanges) return;
      await mustCommit(engine, {
        puts: ["a", "b", "c", "d", "e"].map((sort) => [key("p", sort), sort] as const),
      });
      const ranges = [
        { start: key("p", "a"), end: key("p", "b\0") },
        { start: key("p", "b\0"), end: key("p", "c") },
        { start: key("p", "d"), end: key("p", "d\0") },
        { start: key("p", "f"), end: key("p", "g") },
      ];
      const sortsUntil = async (last: string) => {
        const visited: string[] = [];
        for (let rest = ranges; ; ) {
          const end = await engine.scanRanges!(rest, (entry) => {
            visited.push(text(entry.key.sort));
            return visited.at(-1) !== last;
          });
          if (typeof end === "string") return [...visited, end];
          rest = rest.flatMap((range) => {
            if (compareKeys(range.end, end.resumeAt) <= 0) return [];
            return [
              compareKeys(range.start, end.resumeAt) < 0
                ? { ...range, start: end.resumeAt }
                : range,
            ];
          });
        }
      };
      assert.deepEqual(await sortsUntil("none"), ["a", "b", "d", "complete"]);
      assert.deepEqual(await sortsUntil("b"), ["a", "b", "stopped"]);
    }));

  it("sharing: versions still grow after a slot was taken", () =>
    withEngine(async (engine) => {
      if (!engine.supports.sharing) return;
      const before = await put(engine, key("p", "a"), "1");
      engine.takeSlot!(7);
      assert.ok(engine.nextVersion() > before, "A version was issued again.");
      assert.equal(typeof engine.isShared!(), "boolean");
    }));

  it("sealing: seals keys that exist and keys that do not, and changes neither value nor version", () =>
    withEngine(async (engine) => {
      if (!engine.supports.sealing) return;
      const { sealing } = engine;
      assert.ok(sealing);
      const at = key("p", "a");
      const version = await put(engine, at, "1");
      await sealing.seal([at, key("p", "b")]);
      await sealing.end();
      assert.equal(sealing.isDue(), false);
      const [entry, none] = await engine.get([at, key("p", "b")]);
      assert.deepEqual(
        [entry?.version, entry && text(entry.value), none],
        [version, "1", undefined],
      );
    }));
}
