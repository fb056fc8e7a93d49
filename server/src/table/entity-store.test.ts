import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { ServiceError } from "@rowhouse/protocol/errors";
import { openAccountIds } from "../catalog/account-ids.ts";
import { Catalog } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import type { Engine } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { EntityStore, type TableValue } from "./entity-store.ts";

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

function isTableNotFound(error: unknown): boolean {
  return error instanceof ServiceError && error.code === "TableNotFound";
}

/** A server's view of one table over an engine that others may share. */
async function openStore(engine: Engine) {
  const accountIds = await openAccountIds(engine, ["acc"]);
  const catalog = new Catalog<TableValue>(engine, KEY_SPACES.tableCatalog, accountIds);
  const store = new EntityStore(engine, catalog);
  return {
    create: () => catalog.create("acc", "films", { policies: [] }),
    remove: () => catalog.remove("acc", "films"),
    open: async () => store.openTable("acc", "films"),
    find: async (rowKey: string) => store.get("acc", "films", "p", rowKey),
    async insert(rowKey: string) {
      const body = Buffer.from(`{"PartitionKey":"p","RowKey":"${rowKey}"}`);
      const entity = decodeEntity(body);
      const mutation = {
        kind: "insert",
        partitionKey: "p",
        rowKey,
        entity,
        ifMatch: undefined,
      } as const;
      const outcome = await store.commit("acc", "films", [mutation]);
      assert.equal(outcome.committed, true);
    },
  };
}
