import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect, type Database, entity, f, isTableError, k } from "../index.ts";
import { isRefusal, PortError } from "../ports/port-error.ts";
import { intercept, type Layer, memory } from "../testing.ts";

const Counter = entity("Counter", {
  version: 1,
  fields: { id: f.string(), count: f.int32() },
  key: { partition: [k.str("id")], row: [k.lit("counter")] },
});
const key = { id: "a" };
const one = { id: "a", count: 1 };
const add = (db: Database) => db.open(Counter).update(key, ({ count }) => ({ count: count + 1 }));

/** A client whose first commit gets no answer; before its next request, another client runs `meanwhile`. */
async function open(isSent: boolean, meanwhile: (others: Database) => Promise<unknown>) {
  const backend = memory();
  const others = connect(backend);
  await others.createTables(Counter);
  let commits = 0;
  const losing: Layer = async ({ method }, send) => {
    if (method !== "commit" || ++commits > 1) return send();
    if (isSent) await send();
    await meanwhile(others);
    throw new PortError("The connection was reset.", { status: 0, code: "ECONNRESET" });
  };
  const db = connect({ ...backend, ...intercept(backend, losing) });
  return {
    backend,
    db,
    others,
    counters: db.open(Counter),
    found: () => others.open(Counter).get(key),
  };
}

const times = (count: number) => async (db: Database) => {
  for (let i = 0; i < count; i++) await add(db);
};

describe("a commit that got no answer", () => {
  it("is refused if it never arrived and another client came first", async () => {
    const another = { id: "a", count: 7 };
    const { counters, found } = await open(false, (others) => others.open(Counter).insert(another));
    await assert.rejects(counters.insert(one), (error) => isTableError(error, "unique-violation"));
    assert.equal((await found())?.count, 7);
  });

  it("is repeated if it never arrived, on top of what another client wrote meanwhile", async () => {
    const { db, others, found } = await open(false, times(1));
    await others.open(Counter).insert(one);
    await add(db);
    assert.equal((await found())?.count, 3);
  });

  it("takes effect once if it arrived, even if up to three writes followed", async () => {
    for (const count of [0, 1, 3]) {
      const { db, others, found } = await open(true, times(count));
      await others.open(Counter).insert(one);
      await add(db);
      assert.equal((await found())?.count, 2 + count);
      const inserted = await open(true, times(count));
      await inserted.counters.insert(one);
      assert.equal((await inserted.found())?.count, 1 + count);
    }
  });

  it("is ambiguous, and not repeated, if later writes hide whether it arrived", async () => {
    for (const isSent of [true, false]) {
      const { db, others, found } = await open(isSent, times(4));
      await others.open(Counter).insert(one);
      await assert.rejects(add(db), (error) => isTableError(error, "ambiguous-outcome"));
      assert.equal((await found())?.count, isSent ? 6 : 5);
    }
    const { counters } = await open(true, times(4));
    await assert.rejects(
      counters.insert(one),
      (error) => isTableError(error, "ambiguous-outcome") && error.key === "counter",
    );
  });

  it("returns no ETag that would allow overwriting a later, unread write", async () => {
    const { counters, found } = await open(true, times(1));
    const saved = await counters.insert(one);
    await assert.rejects(counters.replaceIfUnchanged({ ...saved, count: 9 }), (error) =>
      isTableError(error, "conflict"),
    );
    assert.equal((await found())?.count, 2);
    const alone = await open(true, async () => {});
    const own = await alone.counters.insert(one);
    await alone.counters.replaceIfUnchanged({ ...own, count: 9 });
    assert.equal((await alone.found())?.count, 9);
  });

  it("counts as done if it deleted the row, and as a conflict if another client wrote it", async () => {
    const { counters, others, found } = await open(true, async () => {});
    await others.open(Counter).insert(one);
    assert.equal(await counters.delete(key), true);
    assert.equal(await found(), undefined);
    const raced = await open(false, times(1));
    const read = await raced.others.open(Counter).insert(one);
    await assert.rejects(raced.counters.deleteIfUnchanged(read), (error) =>
      isTableError(error, "conflict"),
    );
    assert.equal((await raced.found())?.count, 2);
  });

  it("is refused if it never arrived, even if it carries no write token", async () => {
    const { db, others } = await open(false, times(1));
    const { etag } = await others.open(Counter).insert(one);
    const row = { partitionKey: "a", rowKey: "counter", ifMatch: String(etag) };
    const touch = { kind: "merge", ...row, properties: {} } as const;
    await assert.rejects(db.tables.commit("Counter", [touch]), (error) => isRefusal(error, 412));
  });
});
