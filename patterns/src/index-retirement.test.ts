import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { batch } from "./batch.ts";
import type { Database } from "./database.ts";
import { connect, entity, isTableError, k } from "./index.ts";
import { indexLifeCycle } from "./index-life-cycle.ts";
import { indexRepairs } from "./index-repairs.ts";
import { repairIndex } from "./index-scrub.ts";
import { controlledIndexes } from "./index-states.ts";
import { fields, Indexed, key, Plain } from "./indexes/test-employee.ts";
import { entriesOf, everything, expected, MINUTE, NAMES, open } from "./indexes/test-life-cycle.ts";
import { isRefusal, PortError } from "./ports/port-error.ts";
import type { EntityKey } from "./ports/tables.ts";
import { remoteIndex } from "./remote-index.ts";
import { siblingIndex } from "./sibling-index.ts";
import { intercept, type Layer, memory, withFaults } from "./testing.ts";

describe("an index that is retired", () => {
  for (const name of NAMES) {
    it(`cannot be built during its retirement, however long that takes, but can be afterwards (${name})`, async () => {
      const { backend, db, plain, of } = await open();
      await of(name).disable();
      await of(name).build();
      const builds = new Set<string>();
      const buildBeforeDelete: Layer = async ({ method, args }, send) => {
        if (method === "deleteTable" || isDelete(args)) {
          const build = of(name).build();
          builds.add(
            await build.then(
              () => "built",
              (error) => String(error.message.match(/another process is retiring it/)),
            ),
          );
          backend.clock.advance(40_000);
        }
        return send();
      };
      const states = { indexStates: controlledIndexes({ unregistered: "readable" }) };
      const other = connect({ ...backend, ...intercept(backend, buildBeforeDelete), ...states });
      await indexLifeCycle(other, Indexed, name).retire();
      assert.deepEqual([...builds], ["another process is retiring it"]);
      // Only then is the name of a deleted table free again.
      backend.clock.advance(MINUTE);
      // Its table exists again before any writer writes to it.
      const writing: Layer = async ({ args }, send) => {
        if (args[0] === "rhcontrol" && (await of(name).state()) === "writeonly") {
          await db.open(Indexed).update({ dept: "Sales", id: 1 }, () => ({ email: "other" }));
        }
        return send();
      };
      const building = connect({ ...backend, ...intercept(backend, writing), ...states });
      await indexLifeCycle(building, Indexed, name).build();
      assert.deepEqual(await entriesOf(backend, name), await expected(plain));
    });

    it(`ends disabled, with its entries or its table deleted, and writers carry on (${name})`, async () => {
      const { backend, db, of } = await open(0);
      await db.open(Indexed).insert({ dept: "Sales", id: 1, email: "e1" });
      await of(name)
        .disable()
        .catch(() => undefined);
      await of(name).build();
      await of(name).retire();
      assert.equal(await of(name).state(), "disabled");
      if (name === "near") assert.deepEqual(await entriesOf(backend, name), []);
      else
        assert.equal(
          (await backend.tables.listTables({ from: "ByEmail" })).names.includes("ByEmail"),
          false,
        );
      await db.open(Indexed).update({ dept: "Sales", id: 1 }, () => ({ email: "e2" }));
    });
  }

  it("stays claimed while a whole page of entries is deleted slowly", async () => {
    const { backend, db, of } = await open(0, memory());
    await batch(db, (plan) => {
      for (let id = 1; id <= 250; id++) {
        plan.insert(Plain, { dept: "Sales", id, email: `e${id}` });
      }
    });
    await of("near").disable();
    await of("near").build({ rate: 10_000 });
    const builds: string[] = [];
    const slow: Layer = async ({ args }, send) => {
      if (isDelete(args)) {
        const build = of("near").build();
        builds.push(await build.then(() => "built").catch(() => "refused"));
        backend.clock.advance(40_000);
      }
      return send();
    };
    const retiring = connect({ ...backend, ...intercept(backend, slow) });
    await indexLifeCycle(retiring, Indexed, "near").retire();
    assert.deepEqual(builds, ["refused", "refused", "refused"]);
    assert.deepEqual(await entriesOf(backend, "near"), []);
  });

  it("loses no entry of a later build to a retirement that was too slow", async () => {
    const { backend, db, of } = await open();
    await of("near").disable();
    await of("near").build();
    let isLate = false;
    const slow: Layer = async ({ args }, send) => {
      if (isDelete(args) && !isLate) {
        isLate = true;
        backend.clock.advance(2 * MINUTE);
        await of("near").retire();
        await of("near").build();
      }
      return send();
    };
    const retiring = connect({ ...backend, ...intercept(backend, slow) });
    const retired = indexLifeCycle(retiring, Indexed, "near").retire();
    await assert.rejects(retired, (error) => isTableError(error, "conflict"));
    assert.equal(await of("near").state(), "readable");
    assert.deepEqual(await entriesOf(backend, "near"), await expected(db));
  });

  for (const name of NAMES) {
    const base = { partitionKey: "Sales", rowKey: "empid_000001" };
    const hints = { near: { ...base, rowKey: "email_e1" }, far: { ...base, partitionKey: "e1" } };
    const body = { entity: "Employee", table: "Employee", base, hints: { [name]: [hints[name]] } };
    const message = { v: 1, id: "1", at: "", kind: "reconcile", key: "1", body } as const;
    const { signal } = new AbortController();
    const latecomers: Record<string, (db: Database) => Promise<unknown>> = {
      "a repair": (db) => repairIndex(db, Indexed, name),
      "a build": (db) => indexLifeCycle(db, Indexed, name).build(),
      "a worker": (database) => indexRepairs([Indexed]).handle(message, { database, signal }),
    };
    for (const [who, work] of Object.entries(latecomers)) {
      it(`gets no entry from ${who} that stalled until it was retired (${name})`, async () => {
        const { backend, db: others, plain, of } = await open(3);
        // The table stays because of this row.
        const other = { kind: "insert", partitionKey: "a", rowKey: "b", properties: {} } as const;
        await backend.tables.commit("ByEmail", [other]);
        const isBuild = who.includes("build");
        await of(name).disable();
        if (!isBuild) await of(name).build();
        await plain.open(Plain).delete({ dept: "Sales", id: 1 });
        await plain.open(Plain).insert({ dept: "Sales", id: 1, email: "late" });
        // A repair judges first, then checks again that the index is maintained before it repairs entries a
        // minute old.
        let asks = who === "a repair" ? 2 : 1;
        let isLate = false;
        const slow: Layer = async ({ method, args: [table, key] }, send) => {
          const answer = await send();
          if (method === "query" && table === "rhcontrol") asks--;
          const isBase = table === "Employee" && method === "get" && rowOf(key) === base.rowKey;
          if (isBase && asks <= 0 && !isLate) {
            isLate = true;
            backend.clock.advance(3 * MINUTE);
            if (isBuild) await work(others);
            await of(name).retire();
          }
          return answer;
        };
        const states = { indexStates: controlledIndexes({ unregistered: "readable" }) };
        const db = connect({ ...backend, ...intercept(backend, slow), ...states });
        if (who === "a worker") assert.equal(await work(db), undefined);
        else
          await assert.rejects(
            work(db),
            /it cannot be (built|repaired) now|another process changed its state/,
          );
        assert.ok(isLate);
        assert.deepEqual(await entriesOf(backend, name), []);
      });
    }
  }

  it("keeps its table if a build created it again before the retirement retries the deletion", async () => {
    const { backend, db, of } = await open();
    await of("far").disable();
    await of("far").build();
    let deletes = 0;
    const slow: Layer = async ({ method }, send) => {
      if (method !== "deleteTable" || deletes++ > 0) return send();
      backend.clock.advance(2 * MINUTE);
      await of("far").retire();
      // Only then is the name of a deleted table free again.
      backend.clock.advance(MINUTE);
      await of("far").build();
      throw new PortError("busy", { status: 503, code: "ServerBusy" });
    };
    const retiring = connect({ ...backend, ...intercept(backend, slow) });
    const retired = indexLifeCycle(retiring, Indexed, "far").retire();
    await assert.rejects(retired, (error) => isTableError(error, "conflict"));
    assert.deepEqual(await entriesOf(backend, "far"), await expected(db));
  });

  it("loses even an entry that another client changes just before its deletion", async () => {
    const { backend, of } = await open();
    await of("near").disable();
    await of("near").build();
    let changes = 0;
    const changing: Layer = async ({ args }, send) => {
      if (isDelete(args) && changes++ === 0) {
        const entry = { partitionKey: "Sales", rowKey: "email_e2", ifMatch: "*", properties: {} };
        await backend.tables.commit("Employee", [{ kind: "merge", ...entry }]);
      }
      return send();
    };
    const retiring = connect({ ...backend, ...intercept(backend, changing) });
    await indexLifeCycle(retiring, Indexed, "near").retire();
    assert.notEqual(changes, 0);
    assert.deepEqual(await entriesOf(backend, "near"), []);
  });

  it("leaves its table to another entity's index and to foreign rows", async () => {
    const { backend, db } = await open(0);
    const [one, other] = ["Buyer", "Seller"].map((name) => {
      const town = remoteIndex({
        table: "Towns",
        partition: [k.lit(name), k.str("email")],
        row: [k.str("dept"), k.lit("empid"), k.uint("id", 6)],
      });
      return entity(name, { version: 1, fields, key, indexes: { town } });
    });
    for (const definition of [one!, other!]) {
      await db.createTables(definition);
      await db.open(definition).insert({ dept: "Sales", id: 1, email: "e1" });
    }
    await backend.tables.commit("Towns", [
      { kind: "insert", partitionKey: "a", rowKey: "b", properties: {} },
    ]);
    const left = async () =>
      (await everything(backend.tables, "Towns")).entities.map(({ partitionKey }) => partitionKey);
    await indexLifeCycle(db, one!, "town").retire();
    assert.deepEqual(await left(), ["Seller_e1", "a"]);
    await indexLifeCycle(db, other!, "town").retire();
    assert.deepEqual(await left(), ["a"]);
  });

  it("cannot be built under a changed definition until its old entries are deleted", async () => {
    const { backend, db, of } = await open(3);
    const row = [k.lit("mail"), k.str("email")] as const;
    const { far } = Indexed.indexes;
    const indexes = { near: siblingIndex({ row, unique: true }), far };
    const Changed = entity("Employee", { version: 1, fields, key, indexes });
    await of("near").disable();
    await of("near").build();
    const cycle = indexLifeCycle(db, Changed, "near");
    await cycle.disable();
    // The process crashes in the middle.
    const dying = withFaults(({ args }) =>
      isDelete(args) ? { kind: "refuse", status: 403, code: "AuthorizationFailure" } : undefined,
    );
    const retiring = connect({ ...backend, ...intercept(backend, dying) });
    await assert.rejects(indexLifeCycle(retiring, Indexed, "near").retire(), (error) =>
      isRefusal(error, 403),
    );
    await assert.rejects(cycle.build(), /another definition left entries: retire it/);
    backend.clock.advance(2 * MINUTE);
    await of("near").retire();
    assert.equal((await cycle.build()).done, 3);
  });
});

function rowOf(key: unknown): string | undefined {
  return (Object(key) as Partial<EntityKey>).rowKey;
}

function isDelete(args: readonly unknown[]): boolean {
  return JSON.stringify(args).includes('"kind":"delete"');
}
