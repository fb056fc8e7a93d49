import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { ServiceError } from "@rowhouse/protocol/errors";
import { type IfMatch, parseIfMatch } from "@rowhouse/protocol/etag";
import { openAccountIds } from "../catalog/account-ids.ts";
import { Catalog } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import { type Clock, systemClock } from "../clock.ts";
import { CALL_MS_MAX, type Engine, EngineError } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { planQuery } from "../query/planner.ts";
import { recordEtag, recordTimestamp } from "./entity-record.ts";
import { EntityStore } from "./entity-store.ts";
import type { CommitOutcome, Mutation } from "./mutation.ts";
import { PageReader } from "./page-reader.ts";
import type { RecordView } from "./record-view.ts";
import type { TableValue } from "./table-value.ts";

describe("The table of a read", () => {
  it("is read along with a point read only after a write, or if the entity is missing and something is written meanwhile", async () => {
    const engine = new MemoryEngine();
    let keysRead = 0;
    let before: (() => void) | undefined;
    const get = engine.get.bind(engine);
    engine.get = (keys) => {
      keysRead += keys.length;
      before?.();
      before = undefined;
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
    assert.equal(await keysOf(() => find("c")), 1);
    // A missing entity may mean that its table was removed a moment ago.
    before = () => void insert("d");
    assert.ok((await keysOf(() => find("c"))) >= 3);
  });

  it("is remembered by queries until another server removes it", async () => {
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

  it("is found removed or created again as soon as another server has done so", async () => {
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

describe("A write to data that several servers share", () => {
  /** A store whose engine gives the next write a version this far above that of the existing entity. */
  async function openBehind(micros: number) {
    const engine = new MemoryEngine();
    const store = await openStore(engine);
    await store.create();
    await store.insert("r");
    const first = (await store.find("r"))!;
    const other = await openStore(engine);
    engine.nextVersion = () => recordTimestamp(first) + micros;
    return { ...store, first, other };
  }
  const etagOf = (outcome: CommitOutcome) => {
    assert.ok(outcome.committed);
    return recordEtag(outcome.stored[0]!.record!);
  };

  for (const micros of [0, -1_000_000]) {
    it(`gets a later Timestamp and a new ETag when its version is ${-micros} µs behind`, async () => {
      const store = await openBehind(micros);
      const etag = etagOf(await store.replace("r", `{"A":1}`));
      // The second read is of the entity alone; the third is by a server that has not seen the table yet.
      for (const look of [store.find, store.find, store.other.find]) {
        const found = (await look("r"))!;
        assert.ok(recordTimestamp(found) > recordTimestamp(store.first));
        assert.equal(recordEtag(found), etag);
      }
      assert.deepEqual(await store.list(), [etag]);
    });
  }

  it("with a raised version is not overwritten by a client that holds the previous ETag", async () => {
    const store = await openBehind(0);
    await store.replace("r", `{"A":1}`);
    const outcome = await store.replace("r", `{"A":2}`, parseIfMatch(recordEtag(store.first)));
    assert.ok(!outcome.committed);
    assert.equal(outcome.error.code, "UpdateConditionNotSatisfied");
  });

  it("succeeds with a matching ETag as a server's first request", async () => {
    const engine = new MemoryEngine();
    const here = await openStore(engine);
    await here.create();
    await here.insert("r");
    const [etag = ""] = await here.list();
    const afterRestart = await openStore(engine);
    const outcome = await afterRestart.replace("r", `{"A":2}`, parseIfMatch(etag));
    assert.equal(outcome.committed, true);
  });

  it("does not reach a table that another server removed and created again", async () => {
    const engine = new MemoryEngine();
    const here = await openStore(engine);
    const there = await openStore(engine);
    await here.create();
    await here.insert("r");
    const [etag = ""] = await here.list();
    await there.remove();
    await there.create();
    const outcome = await here.replace("r", `{"A":2}`, parseIfMatch(etag));
    assert.equal(outcome.committed ? "committed" : outcome.error.code, "ResourceNotFound");
  });

  it("is kept by a transaction of merges that read before it", async () => {
    const engine = new MemoryEngine();
    const here = await openStore(engine);
    const there = await openStore(engine);
    await here.create();
    await there.open();
    const commit = engine.commit.bind(engine);
    engine.commit = async (write) => {
      engine.commit = commit;
      await there.replace("r", `{"A":1}`);
      return commit(write);
    };
    const outcome = await here.mergeAll(["r", "s"], `{"B":2}`);
    assert.equal(outcome.committed, true);
    const text = Buffer.from((await here.find("r"))!).toString("latin1");
    assert.match(text, /"A":1.*"B":2/);
  });

  it("with a raised version is overwritten by a client that holds its ETag", async () => {
    const store = await openBehind(0);
    const etag = etagOf(await store.replace("r", `{"A":1}`));
    const outcome = await store.replace("r", `{"A":2}`, parseIfMatch(etag));
    assert.notEqual(etagOf(outcome), etag);
  });
});

describe("A write that keeps losing to its rivals", () => {
  it("fails as Unavailable after the time of a call, or at once with the entity's own conflict", async () => {
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
        if (++commits > 9)
          throw new Error("There were more attempts than the time of a call allows.");
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

/** A server's view of one table, over an engine that several may share. */
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
    /** The ETags of all entities, as a query finds them. */
    async list() {
      const { prefix } = await store.openTable("acc", "films");
      const etags: string[] = [];
      const take = ({ record }: RecordView) => etags.push(recordEtag(record));
      const limits = { entitiesMax: 1000, bytesMax: 1_000_000, deadline: Number.POSITIVE_INFINITY };
      const request = { prefix, plan: planQuery(undefined), predicate: undefined, take, ...limits };
      await new PageReader(engine, clock, request).read();
      return etags;
    },
    async insert(rowKey: string) {
      const outcome = await write("insert", rowKey, "{}");
      assert.equal(outcome.committed, true);
    },
    mergeAll(rowKeys: readonly string[], json: string) {
      const merges = rowKeys.map((rowKey): Mutation => {
        const address = { partitionKey: "p", rowKey };
        const entity = decodeEntity(Buffer.from(json), address);
        return { kind: "merge", ...address, entity, ifMatch: undefined };
      });
      return store.commit("acc", "films", merges);
    },
    tryInsert: (rowKey: string) => write("insert", rowKey, "{}"),
    replace: (rowKey: string, json: string, ifMatch?: IfMatch) =>
      write("replace", rowKey, json, ifMatch),
  };
}
