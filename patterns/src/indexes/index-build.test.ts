import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database, entity, isTableError } from "../index.ts";
import { indexLifeCycle, type Progress } from "../index-life-cycle.ts";
import { indexRepairs } from "../index-repairs.ts";
import { repairIndex, verifyIndex } from "../index-scrub.ts";
import { controlledIndexes } from "../index-states.ts";
import { definitionHash } from "../model/declared-index.ts";
import { deleteOf } from "../ports/mutation.ts";
import { isRefusal } from "../ports/port-error.ts";
import type { Continuation } from "../ports/tables.ts";
import { type From, pages } from "../query/pages.ts";
import { createWorker } from "../queue-worker.ts";
import { schedules } from "../testing/test-histories.ts";
import { loseEveryAnswer } from "../testing/test-lose-every-answer.ts";
import {
  crashEverywhere,
  intercept,
  interleave,
  type Layer,
  type Memory,
  memory,
  withFaults,
} from "../testing.ts";
import { fields, Indexed, key, Plain } from "./test-employee.ts";

const MINUTE = 60_000;
const DEPARTMENTS = ["Audit", "Legal", "Sales", "Tax"];
const small = () => memory({ pageEntitiesMax: 2 });

/** `each` employees in every department, written by a program without indexes. */
async function prepare(db: Database, each: number): Promise<void> {
  await db.createTables(Indexed);
  await db.tables.createTable("rhcontrol");
  for (const name of ["index-repairs", "index-repairs-poison"]) await db.queues?.createQueue(name);
  for (const dept of DEPARTMENTS) {
    for (let id = 1; id <= each; id++) {
      await db.open(Plain).insert({ dept, id, email: `${dept}${id}` });
    }
  }
  for (const name of ["near", "far"]) await indexLifeCycle(db, Indexed, name).disable();
}

async function open(each: number, backend = small()) {
  await prepare(connect(backend), each);
  const db = connect({ ...backend, indexStates: controlledIndexes({ unregistered: "readable" }) });
  return { backend, db };
}

async function assertWhole(db: Database, name: string): Promise<void> {
  const { examples: _examples, entities, entries, ...bad } = await verifyIndex(db, Indexed, name);
  assert.equal(entries, entities);
  const good = { missing: 0, wrong: 0, dangling: 0, duplicate: 0, young: 0, repairRequests: 0 };
  assert.deepEqual(bad, good);
}

async function shardsIn({ tables }: Memory) {
  const shards = [];
  for await (const { entities } of pages((from: From<Continuation>) =>
    tables.query("rhcontrol", from),
  )) {
    shards.push(...entities.filter(({ partitionKey }) => partitionKey === "shards"));
  }
  return shards;
}

describe("a build that several processes share", () => {
  it("of a table that is not there fails at once, and takes the index from nobody", async () => {
    const backend = small();
    const db = connect(backend);
    await db.tables.createTable("rhcontrol");
    await indexLifeCycle(db, Indexed, "far").disable();
    const before = backend.clock.now();
    await assert.rejects(indexLifeCycle(db, Indexed, "far").build(), (error) =>
      isRefusal(error, 404),
    );
    assert.equal(backend.clock.now(), before);
    assert.equal(await indexLifeCycle(db, Indexed, "far").state(), "disabled");
  });

  it("refuses a rate at which it would never finish", async () => {
    const backend = small();
    const db = connect(backend);
    await prepare(db, 1);
    for (const rate of [0, -1, Number.NaN]) {
      await assert.rejects(indexLifeCycle(db, Indexed, "near").build({ rate }), (error) =>
        isTableError(error, "validation-failed"),
      );
    }
  });

  for (const name of ["near", "far"]) {
    it(`is finished by another process after a crash at any request (${name})`, async () => {
      const crashes = await crashEverywhere(
        (db) => indexLifeCycle(db, Indexed, name).build({ shards: 2, parallel: 1 }),
        {
          backend: small,
          before: (db) => prepare(db, 1),
          recover: (db) => indexLifeCycle(db, Indexed, name).build({ shards: 3, parallel: 2 }),
          check: async (db, backend) => {
            backend.clock.advance(MINUTE);
            await assertWhole(db, name);
            assert.equal(await indexLifeCycle(db, Indexed, name).state(), "readable");
            assert.deepEqual(await shardsIn(backend), []);
          },
        },
      );
      assert.ok(crashes > 40);
    });

    it(`finishes if answers are lost (${name})`, async () => {
      const build = (db: Database) =>
        indexLifeCycle(db, Indexed, name).build({ shards: 2, parallel: 1 });
      const lost = await loseEveryAnswer(build, {
        before: (db) => prepare(db, 1),
        check: async (db, backend) => {
          backend.clock.advance(MINUTE);
          await assertWhole(db, name);
          assert.equal(await indexLifeCycle(db, Indexed, name).state(), "readable");
          assert.deepEqual(await shardsIn(backend), []);
        },
      });
      assert.ok(lost > 20);
    });

    it(`misses no concurrent write, whatever builders and writers crash (${name})`, async () => {
      const write = async (db: Database) => {
        for (let i = 0; i < 2; i++) {
          const dept = DEPARTMENTS[Math.floor(db.random() * DEPARTMENTS.length)]!;
          const email = `${dept}1${db.random() < 0.5 ? "" : "x"}`;
          const employees = db.open(Indexed);
          try {
            if (db.random() < 0.3) await employees.delete({ dept, id: 1 });
            else await employees.upsert({ dept, id: 1, email });
          } catch (error) {
            const isExpected = ["unique-violation", "throttled", "contention-exhausted"].some(
              (code) => isTableError(error) && error.code === code,
            );
            if (!isExpected) throw error;
          }
          await db.clock.sleep(30_000 * db.random());
        }
      };
      const build = (db: Database) =>
        indexLifeCycle(db, Indexed, name).build({ shards: 3, parallel: 2, rate: 1000 });
      await interleave({
        backend: (clock, seed) => memory({ clock, seed, pageEntitiesMax: 2 }),
        connect: { indexStates: controlledIndexes({ unregistered: "readable" }) },
        before: (db) => prepare(db, 1),
        clients: { builder: build, another: build, one: write, two: write },
        crashShare: 0.01,
        recover: async (db) => {
          await db.clock.sleep(2 * MINUTE);
          await build(db);
          const handlers = [indexRepairs([Indexed])];
          const worker = createWorker(db, { queue: "index-repairs", handlers });
          for (let round = 0; round < 4; round++) {
            await db.clock.sleep(2 * MINUTE);
            await worker.drain();
            await repairIndex(db, Indexed, name);
          }
        },
        check: (db) => assertWhole(db, name),
        runs: schedules(15),
      });
    });

    it(`lists values that are not unique, even across shards (${name})`, async () => {
      const { db } = await open(1);
      const plain = db.open(Plain);
      await plain.insert({ dept: "Audit", id: 2, email: "Audit1" });
      await plain.insert({ dept: "Tax", id: 2, email: "Audit1" });
      const { done, duplicates } = await indexLifeCycle(db, Indexed, name).build({ shards: 4 });
      assert.equal(done, 6);
      assert.equal(duplicates.length, name === "near" ? 1 : 2);
      assert.equal(await indexLifeCycle(db, Indexed, name).state(), "readable-dups");
    });
  }

  it("splits the table between partitions into roughly equal shards, at the promised cost", async () => {
    const { backend, db } = await open(5, memory());
    const sales = db.open(Plain);
    for (let id = 6; id <= 20; id++) await sales.insert({ dept: "Sales", id, email: `s${id}` });
    const progress: Progress[] = [];
    let cut: Awaited<ReturnType<typeof shardsIn>> = [];
    const { requests, result } = await db.metered((metered) =>
      indexLifeCycle(metered, Indexed, "near").build({
        shards: 3,
        onProgress: async (one) => {
          progress.push(one);
          if (progress.length === 1) cut = await shardsIn(backend);
        },
      }),
    );
    const bounds = cut.map(({ properties }) => JSON.parse(String(properties.shard?.value)));
    assert.deepEqual(
      bounds.map(({ from, to }) => [from, to]),
      [
        [undefined, "Sales"],
        ["Sales", "Tax"],
        ["Tax", undefined],
      ],
    );
    assert.deepEqual(progress.at(-1), { done: 35, shards: 3, shardsDone: 3 });
    assert.equal(result.done, 35);
    const forEachShard = 7; // Recorded, claimed, read, the index's state, saved, done, deleted.
    assert.equal(requests, 35 * 3 + 3 * forEachShard + 15);
  });

  it("is shared by processes, each of which ends when all shards are done", async () => {
    const { backend, db } = await open(6);
    const worked: number[] = [];
    const processes = [0, 1, 2].map(async (i) => {
      const own = connect({ ...backend });
      const { done } = await indexLifeCycle(own, Indexed, "far").build({
        shards: 4,
        parallel: 1,
        onProgress: () => {
          worked[i] = (worked[i] ?? 0) + 1;
        },
      });
      return done;
    });
    assert.deepEqual(await Promise.all(processes), [24, 24, 24]);
    assert.ok(worked.filter((pages) => pages > 0).length > 1, `${worked}`);
    backend.clock.advance(MINUTE);
    await assertWhole(db, "far");
    // Too late to help, but not too late to return the result.
    assert.equal((await indexLifeCycle(db, Indexed, "far").build()).done, 24);
  });

  it("takes over a dead worker's shard after a minute, from its recorded page", async () => {
    const { backend, db } = await open(6);
    const stop = new AbortController();
    const pages: number[] = [];
    const dying = indexLifeCycle(db, Indexed, "near").build({
      shards: 1,
      signal: stop.signal,
      onProgress: ({ done }) => {
        pages.push(done);
        if (done === 12) stop.abort(new Error("Killed."));
      },
    });
    await assert.rejects(dying, /Killed/);
    const diedAt = backend.clock.now();
    const { result, entities } = await db.metered((metered) =>
      indexLifeCycle(metered, Indexed, "near").build(),
    );
    assert.equal(result.done, 24);
    assert.ok(backend.clock.now() - diedAt >= MINUTE);
    assert.ok(entities < 24 * 4, `${entities} entities for half of the build`);
    await assertWhole(db, "near");
  });

  it("keeps its claim on shards, however long their pages take", async () => {
    const { backend, db } = await open(100, memory());
    let saved = 0;
    const slow: Layer = async ({ args }, send) => {
      const answer = await send();
      if (args[0] !== "rhcontrol") backend.clock.advance(1000);
      const shards = saved < 100 ? await shardsIn(backend) : [];
      for (const { properties } of shards) {
        const { ownedUntilMs = 0, isDone } = JSON.parse(String(properties.shard?.value));
        if (ownedUntilMs === 0 || isDone) continue;
        saved++;
        assert.ok(ownedUntilMs > backend.clock.now());
      }
      return answer;
    };
    const building = connect({ ...backend, ...intercept(backend, slow) });
    await indexLifeCycle(building, Indexed, "near").build({ shards: 1 });
    assert.ok(saved >= 100);
    await assertWhole(db, "near");
  });

  it("stops all its shards when one fails, and sends nothing more", async () => {
    const { backend } = await open(6);
    let failedAt = 0;
    let sent = 0;
    const layer = withFaults((call, count) => {
      sent = count;
      if (call.method !== "commit" || call.args[0] !== "ByEmail" || failedAt > 0) return undefined;
      failedAt = count;
      return { kind: "refuse", status: 403, code: "AuthorizationFailure" };
    });
    const db = connect({ ...backend, ...intercept(backend, layer) });
    await assert.rejects(indexLifeCycle(db, Indexed, "far").build({ shards: 4 }), { status: 403 });
    const atEnd = sent;
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(sent, atEnd);
  });

  it("waits for writers that do not know of the build yet", async () => {
    const { backend, db } = await open(1);
    const employees = db.open(Indexed);
    await employees.insert({ dept: "Tax", id: 2, email: "two" });
    // A client that has just seen it disabled.
    await indexLifeCycle(connect(backend), Indexed, "near").build();
    await employees.insert({ dept: "Audit", id: 3, email: "three" });
    backend.clock.advance(MINUTE);
    await assertWhole(db, "near");
  });

  it("never mistakes some of the shards for all of them", async () => {
    const { backend, db } = await open(2);
    const rowKey = `Employee.Employee.near@${definitionHash(Indexed, "near")}`;
    const stop = new AbortController();
    let loseOne = true;
    let requests = 0;
    const layer = async (_call: unknown, send: () => Promise<unknown>) => {
      const [shard] = loseOne ? await shardsIn(backend) : [];
      const { control } = await backend.tables
        .get("rhcontrol", { partitionKey: "index", rowKey })
        .then((row) => row?.properties ?? {});
      if (shard && String(control?.value).includes("count")) {
        loseOne = false;
        await backend.tables.commit("rhcontrol", [deleteOf(shard)]);
      }
      if (++requests === 300) stop.abort(new Error("Enough."));
      return send();
    };
    const watched = connect({ ...backend, ...intercept(backend, layer) });
    const { signal } = stop;
    await assert.rejects(
      indexLifeCycle(watched, Indexed, "near").build({ shards: 3, signal }),
      /Enough/,
    );
    assert.equal(loseOne, false);
    assert.equal(await indexLifeCycle(db, Indexed, "near").state(), "writeonly");
  });

  it("creates the table again after a retirement dropped it", async () => {
    const { backend, db } = await open(2);
    await backend.tables.deleteTable("ByEmail");
    backend.clock.advance(MINUTE);
    await indexLifeCycle(db, Indexed, "far").build();
    await assertWhole(db, "far");
  });

  it("can be run again after it is complete, and after a retirement", async () => {
    const { db } = await open(6);
    const cycle = indexLifeCycle(db, Indexed, "near");
    assert.equal((await cycle.build()).done, 24);
    assert.equal((await cycle.build({ shards: 4 })).done, 24);
    await cycle.retire();
    assert.equal(await cycle.state(), "disabled");
    assert.equal((await cycle.build()).done, 24);
  });

  it("refuses an index that cannot be built", async () => {
    const { db } = await open(1);
    assert.throws(
      () => indexLifeCycle(db, Indexed, "nothing"),
      /is not an index that can be built/,
    );
    const Fresh = entity("Fresh", { version: 1, fields, key, indexes: Indexed.indexes });
    await db.createTables(Fresh);
    await assert.rejects(
      indexLifeCycle(db, Fresh, "near").build(),
      /is readable: it cannot be built now/,
    );
  });
});
