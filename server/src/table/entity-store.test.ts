import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { ServiceError } from "@rowhouse/protocol/errors";
import { type IfMatch, parseIfMatch } from "@rowhouse/protocol/etag";
import { openAccountIds } from "../catalog/account-ids.ts";
import { Catalog } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import { type Clock, systemClock } from "../clock.ts";
import { CALL_MS_MAX, type Engine, EngineError, type EngineErrorCode } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { recordEtag, recordTimestamp } from "./entity-record.ts";
import { EntityStore, type TableValue } from "./entity-store.ts";
import type { CommitOutcome, Mutation } from "./mutation.ts";
import { entityKey } from "./table-keys.ts";

/** How a commit ends; "lost" is one that happens and is answered by nobody. */
type CommitEnd = EngineErrorCode | "done" | "lost";

describe("Point reads", () => {
  it("read the table along only after something was written", async () => {
    const engine = new MemoryEngine();
    let keysRead = 0;
    const get = engine.get.bind(engine);
    engine.get = (keys) => {
      keysRead += keys.length;
      return get(keys);
    };
    const { create, find, insert } = await openStore(engine);
    const keysOf = async (work: () => Promise<unknown>) => {
      keysRead = 0;
      await work();
      return keysRead;
    };
    await create();
    await insert("a");
    await find("a");
    assert.equal(await keysOf(() => find("a")), 1);
    await insert("b");
    assert.equal(await keysOf(() => find("a")), 2);
    assert.equal(await keysOf(() => find("b")), 1);
    // What is absent may be so because its table is.
    assert.equal(await keysOf(() => find("c")), 3);
  });

  it("of lists leave the table to be, too, until something was written", async () => {
    const engine = new MemoryEngine();
    const here = await openStore(engine);
    const there = await openStore(engine);
    await here.create();
    const table = await here.open();
    assert.equal(await here.open(), table);
    await there.insert("a");
    assert.equal(await here.open(), table);
    await there.remove();
    await assert.rejects(here.open(), isTableNotFound);
    await there.create();
    assert.notDeepEqual((await here.open()).prefix, table.prefix);
  });

  it("see at once that another server removed the table, or made another of its name", async () => {
    const engine = new MemoryEngine();
    const here = await openStore(engine);
    const there = await openStore(engine);
    await here.create();
    await here.insert("a");
    for (let round = 0; round < 3; round++) {
      assert.ok(await here.find("a"));
      assert.ok(await here.find("a"));
      await there.remove();
      await assert.rejects(here.find("a"), isTableNotFound);
      await there.create();
      assert.equal(await here.find("a"), undefined);
      assert.equal(await here.find("a"), undefined);
      await there.insert("a");
    }
  });
});

describe("A write over one with a newer version, of a server whose clock is ahead", () => {
  /** A store whose commits end so, one after the other; further ones as they should. */
  async function openBehind(...ends: readonly CommitEnd[]) {
    const engine = new MemoryEngine({ clock: { now: () => 1_800_000_000_000 } });
    const store = await openStore(engine);
    await store.create();
    await store.insert("r");
    const key = entityKey((await store.open()).prefix, "p", "r");
    const value = (await store.find("r"))!;
    const version = engine.nextVersion() + 1_000_000;
    await engine.commit({ version, checks: [], puts: [{ key, value }], deletes: [] });
    const commit = engine.commit.bind(engine);
    const left = [...ends];
    engine.commit = async (write) => {
      const end = left.shift() ?? "done";
      if (end === "done") return commit(write);
      if (end === "lost") await commit(write);
      throw new EngineError(end === "lost" ? "Unknown" : end, "Told to fail.");
    };
    return { ...store, version };
  }
  const etagOf = async (outcome: CommitOutcome) => {
    assert.ok(outcome.committed);
    return recordEtag(outcome.stored[0]!.record!);
  };

  it("is stamped anew, so that its Timestamp grows", async () => {
    const store = await openBehind();
    const outcome = await store.replace("r", `{"A":1}`);
    const record = (await store.find("r"))!;
    assert.ok(recordTimestamp(record) > store.version);
    assert.equal(await etagOf(outcome), recordEtag(record));
  });

  for (const code of ["Unavailable", "Closed", "Corrupt", "Unknown"] as const) {
    it(`stands, with the ETag it was answered with, where the new stamp fails: ${code}`, async () => {
      const store = await openBehind("done", code);
      const etag = await etagOf(await store.replace("r", `{"A":1}`));
      assert.equal(recordEtag((await store.find("r"))!), etag);
    });
  }

  it("stands where nobody knows of its new stamp: its ETag then matches nothing", async () => {
    const store = await openBehind("done", "lost");
    const etag = await etagOf(await store.replace("r", `{"A":1}`));
    const outcome = await store.replace("r", `{"A":2}`, parseIfMatch(etag));
    assert.ok(!outcome.committed);
    assert.equal(outcome.error.code, "UpdateConditionNotSatisfied");
  });

  it("fails where it was not committed itself", async () => {
    const store = await openBehind("Unavailable");
    await assert.rejects(store.replace("r", `{"A":1}`), { code: "Unavailable" });
  });

  it("never shares its ETag with the next, stamped anew or not", async () => {
    const store = await openBehind("done", "done", "done", "Unavailable");
    const first = await etagOf(await store.replace("r", `{"A":1}`));
    assert.notEqual(await etagOf(await store.replace("r", `{"A":2}`)), first);
  });
});

describe("A write whose rivals win again and again", () => {
  it("is refused when a call would be over; what its entity says against it goes before", async () => {
    for (const [rowKey, code] of [
      ["new", "Unavailable"],
      ["there", "EntityAlreadyExists"],
    ] as const) {
      const engine = new MemoryEngine();
      const clock = { at: 0, now: () => clock.at };
      const store = await openStore(engine, clock);
      await store.create();
      await store.insert("there");
      let commits = 0;
      engine.commit = async () => {
        if (++commits > 9) throw new Error("It goes on and on.");
        clock.at += CALL_MS_MAX / 2 + 1;
        return { committed: false, failedCheck: 0 };
      };
      const outcome = store.tryInsert(rowKey).then(
        (known) => (known.committed ? "committed" : known.error.code),
        (error: unknown) => (error instanceof EngineError ? error.code : String(error)),
      );
      assert.equal(await outcome, code);
      assert.equal(commits, code === "Unavailable" ? 2 : 1);
    }
  });
});

function isTableNotFound(error: unknown): boolean {
  return error instanceof ServiceError && error.code === "TableNotFound";
}

/** A server's view of one table over an engine that others may share. */
async function openStore(engine: Engine, clock: Clock = systemClock) {
  const accountIds = await openAccountIds(engine, ["acc"]);
  const catalog = new Catalog<TableValue>(engine, KEY_SPACES.tableCatalog, accountIds, clock);
  const store = new EntityStore(engine, catalog, clock);
  const write = (kind: Mutation["kind"], rowKey: string, json: string, ifMatch?: IfMatch) => {
    const address = { partitionKey: "p", rowKey };
    const entity = decodeEntity(Buffer.from(json), address);
    return store.commit("acc", "films", [{ kind, ...address, entity, ifMatch }]);
  };
  return {
    create: () => catalog.create("acc", "films", { policies: [] }),
    remove: () => catalog.remove("acc", "films"),
    open: async () => store.openTable("acc", "films"),
    find: async (rowKey: string) => store.get("acc", "films", "p", rowKey),
    async insert(rowKey: string) {
      const outcome = await write("insert", rowKey, "{}");
      assert.equal(outcome.committed, true);
    },
    tryInsert: (rowKey: string) => write("insert", rowKey, "{}"),
    replace: (rowKey: string, json: string, ifMatch?: IfMatch) =>
      write("replace", rowKey, json, ifMatch),
  };
}
