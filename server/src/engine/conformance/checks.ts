import assert from "node:assert/strict";
import { it } from "node:test";
import { type Check, type Engine, type Key, PREMISE_FAILED } from "../engine.ts";
import {
  absent,
  atVersion,
  bytes,
  commit,
  getText,
  key,
  mustCommit,
  present,
  put,
  type Steps,
  scanText,
  type WithEngine,
} from "./steps.ts";

const a = key("p", "a");
const b = key("p", "b");
const c = key("p", "c");

export function testChecks(withEngine: WithEngine): void {
  const actions: Record<string, Steps> = {
    "a put of it": { puts: [[a, "new"]] },
    "a delete of it": { deletes: [a] },
    "a put of another key": { puts: [[b, "new"]] },
    "no write at all": {},
  };
  const cases: [state: string, check: string, holds: boolean, of: (version: number) => Check][] = [
    ["an absent key", "absent", true, () => absent(a)],
    ["an absent key", "present", false, () => present(a)],
    ["an absent key", "at a version", false, () => atVersion(a, 1)],
    ["a present key", "absent", false, () => absent(a)],
    ["a present key", "present", true, () => present(a)],
    ["a present key", "at its version", true, (version) => atVersion(a, version)],
    ["a present key", "at a version before its own", false, (version) => atVersion(a, version - 1)],
    ["a present key", "at a version after its own", false, (version) => atVersion(a, version + 1)],
  ];
  for (const [state, check, holds, of] of cases) {
    for (const [action, steps] of Object.entries(actions)) {
      it(`${holds ? "commits" : "refuses"} ${action} when ${state} is expected to be ${check}`, () =>
        withEngine(async (engine) => {
          const version = state === "a present key" ? await put(engine, a, "old") : 0;
          const before = await scanText(engine);
          const result = await commit(engine, { ...steps, checks: [of(version)] });
          if (!holds) {
            assert.deepEqual(result, { committed: false, failedCheck: 0 });
            assert.deepEqual(await scanText(engine), before);
            return;
          }
          assert.equal(result.committed, true);
          assert.equal(await getText(engine, a), expectedText(steps, a, before.length > 0));
          assert.equal(await getText(engine, b), expectedText(steps, b, false));
        }));
    }
  }

  it("commits what is known to have held while nothing but its like is committed", () =>
    withEngine(async (engine) => {
      const checks = [atVersion(a, await put(engine, a, "1"))];
      const heldAt = engine.newestCommit();
      for (const value of ["1", "2"]) {
        await Promise.all([
          mustCommit(engine, { checks, heldAt, puts: [[b, value]] }),
          mustCommit(engine, { checks, heldAt, puts: [[c, value]] }),
        ]);
        assert.deepEqual(await scanText(engine), ["p/a=1", `p/b=${value}`, `p/c=${value}`]);
      }
    }));

  const changes: Record<string, (engine: Engine) => Promise<unknown>> = {
    "a put": (engine) => put(engine, a, "2"),
    "a delete": (engine) => mustCommit(engine, { deletes: [a] }),
    "an update": async (engine) =>
      engine.supports.update ? engine.update!(a, () => bytes("2")) : put(engine, a, "2"),
  };
  for (const [name, change] of Object.entries(changes)) {
    it(`refuses what is known to have held before ${name}, also one that it shares a flush with`, () =>
      withEngine(async (engine) => {
        const checks = [atVersion(a, await put(engine, a, "1"))];
        const heldAt = engine.newestCommit();
        const dependent = { checks, heldAt, puts: [[b, "1"]] } as const;
        await mustCommit(engine, dependent);
        const [, sharing] = await Promise.all([change(engine), commit(engine, dependent)]);
        // An engine may apply what arrives together in any order.
        if (engine.newestCommit() !== undefined) assert.equal(sharing.committed, false);
        const { committed } = await commit(engine, dependent);
        assert.equal(committed, false);
        assert.equal(
          (await commit(engine, { ...dependent, checks: [present(b)] })).committed,
          true,
        );
      }));
  }

  it("returns the first failed check in the caller's order, whatever the order of the keys", () =>
    withEngine(async (engine) => {
      await put(engine, a, "1");
      await put(engine, c, "3");
      assert.deepEqual(await commit(engine, { checks: [absent(b), absent(c), absent(a)] }), {
        committed: false,
        failedCheck: 1,
      });
      assert.deepEqual(await commit(engine, { checks: [present(c), absent(b), present(b)] }), {
        committed: false,
        failedCheck: 2,
      });
    }));

  it("writes nothing when one check fails, even in another partition", () =>
    withEngine(async (engine) => {
      const other = key("q", "a");
      await put(engine, a, "1");
      const result = await commit(engine, {
        checks: [present(a), present(other)],
        puts: [
          [a, "new"],
          [b, "new"],
        ],
        deletes: [other],
      });
      assert.deepEqual(result, { committed: false, failedCheck: 1 });
      assert.deepEqual(await scanText(engine), ["p/a=1"]);
    }));

  it("inserts none of several keys when one is taken; the free ones can then be inserted", () =>
    withEngine(async (engine) => {
      await put(engine, b, "1");
      const insert = (at: Key[]) =>
        commit(engine, { checks: at.map(absent), puts: at.map((each) => [each, "new"]) });
      const [taken, alone, free] = await Promise.all([insert([a, b, c]), insert([b]), insert([c])]);
      assert.deepEqual(taken, { committed: false, failedCheck: 1 });
      assert.deepEqual(alone, { committed: false, failedCheck: 0 });
      assert.equal(free.committed, true);
      assert.deepEqual(await scanText(engine), ["p/b=1", "p/c=new"]);
    }));

  it("commits only while the premise holds, whoever else commits with it", () =>
    withEngine(async (engine) => {
      const table = key("catalog", "table");
      const old = { key: table, version: await put(engine, table, "old") };
      const insert = (at: Key, premise = old) =>
        commit(engine, { checks: [absent(at)], puts: [[at, "new"]], premise });
      assert.equal((await insert(a)).committed, true);
      const [before, version, after] = await Promise.all([
        insert(b),
        put(engine, table, "changed"),
        insert(c),
      ]);
      assert.equal(await getText(engine, b), before.committed ? "new" : undefined);
      assert.equal(await getText(engine, c), after.committed ? "new" : undefined);
      const refused = { committed: false, failedCheck: PREMISE_FAILED };
      const update = { puts: [[a, "updated"]], premise: old } as const;
      assert.deepEqual(await commit(engine, update), refused);
      assert.deepEqual(await commit(engine, { deletes: [a], premise: old }), refused);
      if (engine.supports.update) {
        const change = () => assert.fail("It was called.");
        assert.equal(await engine.update!(a, change, old), undefined);
      }
      assert.equal(await getText(engine, a), "new");
      const now = { key: table, version };
      assert.equal((await commit(engine, { ...update, premise: now })).committed, true);
      await mustCommit(engine, { deletes: [table] });
      assert.deepEqual(await commit(engine, { deletes: [a], premise: now }), refused);
      assert.equal(await getText(engine, a), "updated");
    }));

  it("commits only if a loose premise holds, with every kind of write", () =>
    withEngine(async (engine) => {
      const table = key("catalog", "table");
      const old = { key: table, version: await put(engine, table, "old"), isLoose: true } as const;
      const now = { ...old, version: await put(engine, table, "new") };
      const version = await put(engine, a, "old");
      const writes: readonly Steps[] = [
        { puts: [[a, "new"]] },
        { puts: [[b, "new"]] },
        { checks: [absent(b)], puts: [[b, "new"]] },
        { checks: [present(a)], puts: [[a, "new"]] },
        { checks: [atVersion(a, version)], puts: [[a, "new"]] },
        { checks: [present(a)], deletes: [a] },
        { deletes: [a] },
        { deletes: [b] },
        { checks: [absent(b)], deletes: [b] },
        {
          checks: [absent(b), absent(c)],
          puts: [
            [b, "new"],
            [c, "new"],
          ],
        },
        {
          puts: [
            [a, "new"],
            [b, "new"],
          ],
          deletes: [c],
        },
        { checks: [present(a)] },
      ];
      for (const write of writes) {
        assert.deepEqual(await commit(engine, { ...write, premise: old }), {
          committed: false,
          failedCheck: PREMISE_FAILED,
        });
        assert.deepEqual(await scanText(engine), ["catalog/table=new", "p/a=old"]);
      }
      for (const write of writes) {
        await mustCommit(engine, { puts: [[a, "old"]], deletes: [b, c] });
        const [entry] = await engine.get([a]);
        const checks = (write.checks ?? []).map((check) =>
          typeof check.expected === "number" ? atVersion(a, entry!.version) : check,
        );
        await mustCommit(engine, { ...write, checks, premise: now });
      }
      const failing = { checks: [absent(a)], puts: [[a, "new"]], premise: now } as const;
      await mustCommit(engine, { puts: [[a, "old"]] });
      assert.equal((await commit(engine, failing)).committed, false);
      assert.equal(await getText(engine, a), "old");
    }));

  it("evaluates checks against the state before the commit", () =>
    withEngine(async (engine) => {
      await mustCommit(engine, { checks: [absent(a), absent(b)], puts: [[a, "1"]], deletes: [b] });
      await mustCommit(engine, { checks: [present(a), absent(b)], puts: [[b, "2"]], deletes: [a] });
      assert.deepEqual(await scanText(engine), ["p/b=2"]);
    }));
}

function expectedText({ puts = [], deletes = [] }: Steps, of: Key, wasPresent: boolean) {
  if (deletes.includes(of)) return undefined;
  if (puts.some(([each]) => each === of)) return "new";
  return wasPresent ? "old" : undefined;
}
