import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { type Clock, systemClock } from "../clock.ts";
import type { AtomicWrite, CommitResult, Engine, ScanEnd } from "../engine/engine.ts";
import { encodeText, partitionPrefixRange, partitionRange } from "../engine/key-codec.ts";
import { openLmdbEngine } from "../engine/lmdb/lmdb-engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { LosingEngine } from "../engine/test-losing-engine.ts";
import { TABLE_DOCUMENTS } from "../xml/document-rules.ts";
import { openAccountIds } from "./account-ids.ts";
import { Catalog } from "./catalog.ts";
import { KEY_SPACES } from "./key-spaces.ts";
import { Reaper } from "./reaper.ts";
import { ServicePropertiesStore } from "./service-properties-store.ts";

describe("The catalog", () => {
  it("finds names in any case and returns them as created", async () => {
    const { catalog } = await open();
    await catalog.create("alice", "People", 1);
    assert.equal((await catalog.find("alice", "pEOPLE"))?.name, "People");
    assert.equal((await catalog.create("alice", "PEOPLE", 2)).created, false);
    assert.equal(await catalog.find("bob", "People"), undefined);
  });

  it("gives every created name a new id, even if the name was used before", async () => {
    const { catalog } = await open();
    const first = await catalog.create("alice", "people", 1);
    await catalog.remove("alice", "people");
    const second = await catalog.create("alice", "people", 1);
    assert.notEqual(first.named.id, second.named.id);
  });

  it("renews a name's id, and leaves the old id to the reaper", async () => {
    const { catalog } = await open();
    const { named: before } = await catalog.create("alice", "people", 7);
    const after = await catalog.renew("alice", "people");
    assert.equal(after?.value, 7);
    assert.notEqual(after?.id, before.id);
    assert.deepEqual(await catalog.find("alice", "people"), after);
    assert.deepEqual(
      (await catalog.removed("alice")).map(({ id }) => id),
      [before.id],
    );
    assert.equal(await catalog.renew("alice", "nobody"), undefined);
  });

  it("gives concurrent renewals of a name different ids", async () => {
    const { catalog } = await open();
    await catalog.create("alice", "people", 0);
    const renewed = await Promise.all([1, 2, 3].map(() => catalog.renew("alice", "people")));
    assert.equal(new Set(renewed.map((named) => named?.id)).size, 3);
    assert.equal((await catalog.removed("alice")).length, 3);
  });

  it("lets exactly one of several concurrent creators win", async () => {
    const { catalog } = await open();
    const results = await Promise.all(
      [1, 2, 3, 4].map((value) => catalog.create("alice", "t", value)),
    );
    assert.equal(results.filter(({ created }) => created).length, 1);
  });

  it("gives names that are created concurrently different ids", async () => {
    const { catalog } = await open();
    const names = ["a", "b", "c", "d"];
    const made = await Promise.all(names.map((name) => catalog.create("alice", name, 1)));
    assert.equal(new Set(made.map(({ named }) => named.id)).size, names.length);
  });

  it("loses no commit to a conflict when many create and renew concurrently in one process", async () => {
    const engine = new RefusalCounter();
    const { catalog } = await open(engine);
    const names = Array.from({ length: 50 }, (_, i) => `t${i}`);
    await Promise.all(names.map((name) => catalog.create("alice", name, 1)));
    const renewed = await Promise.all(names.map((name) => catalog.renew("alice", name)));
    assert.equal(new Set(renewed.map((named) => named?.id)).size, names.length);
    assert.equal(engine.refused, 0);
  });

  it("never gives an id twice when several servers create and renew concurrently", async () => {
    const engine = new MemoryEngine();
    const servers = await Promise.all([1, 2, 3].map(() => open(engine)));
    const first = servers[0]!.catalog;
    for (const i of servers.keys()) await first.create("alice", `old${i}`, 1);
    const made = await Promise.all(
      servers.map(({ catalog }, i) => catalog.create("alice", `new${i}`, 1)),
    );
    const renewed = await Promise.all(
      servers.map(({ catalog }, i) => catalog.renew("alice", `old${i}`)),
    );
    const ids = [...made.map(({ named }) => named.id), ...renewed.map((named) => named?.id)];
    assert.equal(new Set(ids).size, 6);
    assert.equal((await first.removed("alice")).length, 3);
  });

  it("does not renew a name that another server removes during the call", async () => {
    const engine = new MemoryEngine();
    const { catalog } = await open(engine);
    const other = await open(engine);
    await catalog.create("alice", "t", 1);
    const commit = engine.commit.bind(engine);
    engine.commit = async (write) => {
      engine.commit = commit;
      await other.catalog.remove("alice", "t");
      return commit(write);
    };
    assert.equal(await catalog.renew("alice", "t"), undefined);
    assert.equal(await catalog.find("alice", "t"), undefined);
  });

  it("applies all of several concurrent updates, and lets exactly one of several removals win", async () => {
    const { catalog } = await open();
    await catalog.create("alice", "t", 0);
    const times = [1, 2, 3, 4];
    await Promise.all(times.map(() => catalog.update("alice", "t", (value) => value + 1)));
    assert.equal((await catalog.find("alice", "t"))?.value, times.length);
    const last = await catalog.update("alice", "t", () => 7);
    assert.equal(last?.name, "t");
    assert.deepEqual(last, await catalog.find("alice", "t"));
    const removed = await Promise.all(times.map(() => catalog.remove("alice", "t")));
    assert.equal(removed.filter((named) => named !== undefined).length, 1);
  });

  it("gives up, as service properties do, when rivals keep winning for the time a call may take", async () => {
    const clock = { at: 0, now: () => clock.at };
    const engine = new LosingEngine();
    const { catalog, ids } = await open(engine, clock);
    const space = KEY_SPACES.tableCatalog;
    const properties = new ServicePropertiesStore({
      ...{ engine, clock, space, accountIds: ids, rules: TABLE_DOCUMENTS },
    });
    await catalog.create("alice", "people", 1);
    engine.pass = (milliseconds) => {
      clock.at += milliseconds;
    };
    for (const write of [
      () => catalog.create("alice", "other", 1),
      () => catalog.update("alice", "people", () => 2),
      () => catalog.renew("alice", "people"),
      () => catalog.remove("alice", "people"),
      () => properties.change("alice", { cors: [] }),
    ]) {
      await assert.rejects(write, { code: "Unavailable" });
      assert.equal(engine.takeLost(), 2);
    }
  });

  it("detects that another process changed a remembered name", async () => {
    const { engine, catalog, ids } = await open();
    await catalog.create("alice", "people", 1);
    const remembered = (await catalog.find("alice", "people"))!;
    const other = new Catalog<number>(engine, KEY_SPACES.tableCatalog, ids, systemClock);
    await other.update("alice", "people", () => 2);
    const [entry] = await engine.get([remembered.key]);
    assert.equal(catalog.isCurrent(remembered, entry), false);
    assert.equal((await catalog.find("alice", "people"))?.value, 2);
  });

  it("lists names by prefix, from a given name on, until the caller ends the page", async () => {
    const { catalog } = await open();
    for (const name of ["b2", "a1", "B1", "c1", "b3"]) await catalog.create("alice", name, 0);
    const names = async (prefix: string, from: string, max: number) => {
      let count = 0;
      const page = await catalog.list("alice", { prefix, from }, () =>
        count++ < max ? "take" : "end",
      );
      return page.map(({ name }) => name).join(" ");
    };
    assert.equal(await names("", "", 9), "a1 B1 b2 b3 c1");
    assert.equal(await names("b", "", 9), "B1 b2 b3");
    assert.equal(await names("b", "b2", 9), "b2 b3");
    assert.equal(await names("", "b1", 2), "B1 b2");
  });

  it("ends a page after a number of bytes, but not before its first name", async () => {
    const { catalog } = await open();
    for (const name of ["a", "b", "c"]) await catalog.create("alice", name, 0);
    const page = async (bytesMax: number, max = 9) => {
      const { names, next } = await catalog.page("alice", { prefix: "", from: "", max, bytesMax });
      return [...names.map(({ name }) => name), "then", next].join(" ");
    };
    assert.equal(await page(1), "a then b");
    assert.equal(await page(10_000), "a b c then ");
    assert.equal(await page(10_000, 2), "a b then c");
  });

  it("gives accounts the same ids each time they are opened", async () => {
    const engine = new MemoryEngine();
    const first = await openAccountIds(engine, ["alice", "bob"]);
    const [again, other] = await Promise.all([
      openAccountIds(engine, ["bob", "carol", "alice"]),
      openAccountIds(engine, ["dave", "bob"]),
    ]);
    assert.equal(again.get("alice"), first.get("alice"));
    assert.equal(other.get("bob"), first.get("bob"));
    assert.equal(new Set([...again.values(), other.get("dave")]).size, 4);
  });
});

describe("The reaper", () => {
  it("frees what was stored under a removed name, and does not forget its id at once", async () => {
    await freesAll(new MemoryEngine());
  });

  it("does so on an engine whose scans lend the same buffer for every key", async () => {
    const path = mkdtempSync(join(tmpdir(), "rowhouse-reaper-"));
    await freesAll(await openLmdbEngine({ path }));
    rmSync(path, { recursive: true });
  });

  async function freesAll(opened: Engine): Promise<void> {
    const { engine, catalog } = await open(opened);
    const { named } = await catalog.create("alice", "people", 0);
    const partition = Uint8Array.of(KEY_SPACES.entities, named.id);
    for (let i = 0; i < 3; i++) {
      await engine.commit({
        version: engine.nextVersion(),
        checks: [],
        puts: [{ key: { partition, sort: encodeText(`row ${i}`) }, value: Uint8Array.of(i) }],
        deletes: [],
      });
    }
    await catalog.remove("alice", "people");
    const released: number[] = [];
    const reaper = new Reaper({
      engine,
      catalog,
      contentsOf: (_, id) => partitionRange(Uint8Array.of(KEY_SPACES.entities, id)),
      release: (_, value) => {
        released.push(value[0]!);
      },
      onError: (error) => assert.fail(String(error)),
    });
    await reaper.reap();
    await reaper.close();
    let left = 0;
    await engine.scan(partitionRange(partition), () => ++left > 0);
    assert.equal(left, 0);
    assert.deepEqual(released, [0, 1, 2]);
    assert.deepEqual(
      (await catalog.removed("alice")).map(({ id }) => id),
      [named.id],
    );
    await engine.close();
  }

  it("forgets a removed id after a minute, and until then frees what late writes store under it", async () => {
    const clock = { at: Date.parse("2026-07-31T18:00:00Z"), now: () => clock.at };
    const { engine, catalog } = await open(new MemoryEngine({ clock }), clock);
    const { named } = await catalog.create("alice", "people", 1);
    const key = {
      partition: Uint8Array.of(KEY_SPACES.entities, named.id),
      sort: encodeText("row"),
    };
    await catalog.remove("alice", "people");
    const { version: removedAt } = (await catalog.removed("alice"))[0]!;
    const reaper = new Reaper({
      engine,
      catalog,
      contentsOf: () => partitionRange(key.partition),
      onError: (error) => assert.fail(String(error)),
    });
    const reapAt = async (seconds: number) => {
      clock.at = removedAt / 1000 + seconds * 1000;
      const puts = [{ key, value: Uint8Array.of(1) }];
      await engine.commit({ version: engine.nextVersion(), checks: [], puts, deletes: [] });
      await reaper.reap();
      assert.deepEqual(await engine.get([key]), [undefined]);
      return (await catalog.removed("alice")).map(({ id }) => id);
    };
    assert.deepEqual(await reapAt(0), [named.id]);
    assert.deepEqual(await reapAt(59), [named.id]);
    assert.deepEqual(await reapAt(61), []);
    await reaper.close();
    await engine.close();
  });

  it("releases an entry that an in-flight write puts during the run", async () => {
    const { engine, catalog } = await open();
    const { named } = await catalog.create("alice", "people", 1);
    const key = {
      partition: Uint8Array.of(KEY_SPACES.entities, named.id),
      sort: encodeText("row"),
    };
    const put = (value: number) =>
      engine.commit({
        version: engine.nextVersion(),
        checks: [],
        puts: [{ key, value: Uint8Array.of(value) }],
        deletes: [],
      });
    await put(1);
    await catalog.remove("alice", "people");
    const released: number[] = [];
    const reaper = new Reaper({
      engine,
      catalog,
      contentsOf: () => partitionRange(key.partition),
      release: async (_, [value = 0]) => {
        released.push(value);
        if (value === 1) await put(2);
      },
      onError: (error) => assert.fail(String(error)),
    });
    await reaper.reap();
    await reaper.close();
    assert.deepEqual(released, [1, 2]);
    assert.deepEqual(await engine.get([key]), [undefined]);
    await engine.close();
  });

  it("keeps an entry whose release fails, and fails once its scan has ended", async () => {
    const { engine, catalog } = await open(new LingeringEngine());
    const { named } = await catalog.create("alice", "people", 1);
    const partition = Uint8Array.of(KEY_SPACES.entities, named.id);
    await engine.commit({
      version: engine.nextVersion(),
      checks: [],
      puts: [{ key: { partition, sort: encodeText("row") }, value: Uint8Array.of(1) }],
      deletes: [],
    });
    await catalog.remove("alice", "people");
    const refused = new Error("No release just now.");
    const reaper = new Reaper({
      engine,
      catalog,
      contentsOf: () => partitionRange(partition),
      release: async () => {
        throw refused;
      },
      onError: (error) => assert.fail(String(error)),
    });
    await assert.rejects(reaper.reap(), refused);
    await reaper.close();
    let left = 0;
    await engine.scan(partitionRange(partition), () => ++left > 0);
    assert.equal(left, 1);
    await engine.close();
  });

  it("frees the removed names after one whose contents cannot be freed", async () => {
    const { engine, catalog } = await open();
    const partitionOf = (id: number) => Uint8Array.of(KEY_SPACES.entities, 1 + id);
    for (const name of ["first", "second"]) {
      const { named } = await catalog.create("alice", name, 1);
      const key = { partition: partitionOf(named.id), sort: encodeText("row") };
      const puts = [{ key, value: Uint8Array.of(1) }];
      await engine.commit({ version: engine.nextVersion(), checks: [], puts, deletes: [] });
      await catalog.remove("alice", name);
    }
    const damaged = new Error("The entry makes no sense.");
    const reaper = new Reaper({
      engine,
      catalog,
      contentsOf: (_, id) => partitionRange(partitionOf(id)),
      release({ partition }) {
        if (partition[1] === 1) throw damaged;
      },
      onError: (error) => assert.fail(String(error)),
    });
    await assert.rejects(async () => reaper.reap(), damaged);
    await reaper.close();
    const left: number[] = [];
    const range = partitionPrefixRange(Uint8Array.of(KEY_SPACES.entities));
    await engine.scan(range, ({ key }) => left.push(key.partition[1]!) > 0);
    assert.deepEqual(left, [1]);
    await engine.close();
  });
});

class RefusalCounter extends MemoryEngine {
  /** Commits with a failed check. */
  refused = 0;

  override async commit(write: AtomicWrite): Promise<CommitResult> {
    const result = await super.commit(write);
    if (!result.committed) this.refused++;
    return result;
  }
}

/** An engine whose scans last for a turn after their last entry, as over a network. */
class LingeringEngine extends MemoryEngine {
  override async scan(...scan: Parameters<MemoryEngine["scan"]>): Promise<ScanEnd> {
    const ended = await super.scan(...scan);
    await new Promise((resolve) => setImmediate(resolve));
    return ended;
  }
}

async function open(engine: Engine = new MemoryEngine(), clock: Clock = systemClock) {
  const ids = await openAccountIds(engine, ["alice", "bob"]);
  const catalog = new Catalog<number>(engine, KEY_SPACES.tableCatalog, ids, clock);
  return { engine, ids, catalog };
}
