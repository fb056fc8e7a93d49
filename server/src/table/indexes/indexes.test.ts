import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import type { Engine } from "../../engine/engine.ts";
import { partitionPrefixRange } from "../../engine/key-codec.ts";
import { openLmdbEngine } from "../../engine/lmdb/lmdb-engine.ts";
import { MemoryEngine } from "../../engine/memory-engine.ts";
import { decorated } from "../../engine/test-decorated.ts";
import { tablePrefix } from "../table-keys.ts";
import { progressKey, readProgress, secondsLeft } from "./index-build.ts";
import {
  ACCOUNT,
  assertIndexesAreRight,
  type IndexLab,
  insertion,
  openIndexLab,
  randomFrom,
  randomMutations,
  runRandomHistory,
  TABLE,
} from "./test-index-model.ts";

const KEYS: readonly (readonly [name: string, key: string])[] = [
  ["ByA", "A:String"],
  ["ByBA", "B:Int32 desc,A:String"],
  ["ByCAB", "C:String,A:String,B:String"],
  ["LocalByA", "PartitionKey,A:String"],
  ["LocalByBC", "PartitionKey,B:DateTime,C:Double desc"],
];

/** `INDEX_OPERATIONS=1000000 npm test -- server/src/table/indexes` is the long form. */
const OPERATIONS = Number(process.env.INDEX_OPERATIONS ?? 1500);
const LMDB_OPERATIONS = Number(process.env.INDEX_OPERATIONS ?? 300);
const SEED = Number(process.env.INDEX_SEED ?? Math.floor(Math.random() * 2 ** 31));

describe(`Indexes (seed ${SEED}, INDEX_SEED repeats it)`, () => {
  it("are what the entities say, after any history", async () => {
    const lab = await openTable();
    for (const [name, key] of KEYS) await lab.declare(name, key);
    await runRandomHistory(lab, { seed: SEED, operations: OPERATIONS });
  });

  it("are what the entities say, after any history over LMDB", async () => {
    const folder = mkdtempSync(join(tmpdir(), "rowhouse-indexes-"));
    const engine = await openLmdbEngine({ path: folder });
    try {
      const lab = await openTable(engine);
      for (const [name, key] of KEYS) await lab.declare(name, key);
      await runRandomHistory(lab, { seed: SEED, operations: LMDB_OPERATIONS });
    } finally {
      await engine.close();
      rmSync(folder, { recursive: true });
    }
  });

  it("are not built from what a writer has changed in the meantime", async () => {
    const engine = new MemoryEngine();
    const lab = await openTable(engine);
    const other = await openIndexLab(paused(engine));
    for (const row of ["changed", "changed in another property", "deleted", "left"]) {
      await lab.write(insertion("insert", "p", row, '"A":"1"'));
    }
    await lab.indexes.create(ACCOUNT, { name: "ByA", table: TABLE, key: "A:String" });
    const resume = pausing();
    const batch = other.builder.step(ACCOUNT, "ByA");
    await resume.reached;
    await lab.write(insertion("replace", "p", "changed", '"A":"2"'));
    await lab.write(insertion("replace", "p", "changed in another property", '"A":"1","B":1'));
    await lab.write(insertion("delete", "p", "deleted", ""));
    resume.go();
    assert.equal(await batch, "over");
    assert.equal(await entryCount(lab, "ByA"), 3);
    await assertIndexesAreRight(lab);
  });

  it("that are declared later are built beside writers, and miss nothing", async () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const random = randomFrom(seed);
    for (let round = 0; round < 20; round++) {
      const lab = await openTable();
      for (let i = 0; i < 100; i++) await lab.write(...randomMutations(random));
      for (const [name, key] of KEYS.slice(0, 3)) {
        await lab.indexes.create(ACCOUNT, { name, table: TABLE, key });
      }
      const building = KEYS.slice(0, 3).map(async ([name]) => {
        while ((await lab.builder.step(ACCOUNT, name, 1 + random(8))) !== "over");
      });
      let isBuilt = false;
      const writing = Array.from({ length: 4 }, async () => {
        for (let i = 0; i < 20 || !isBuilt; i++) {
          await lab.write(...randomMutations(random));
          await new Promise((resolve) => setImmediate(resolve));
        }
      });
      await Promise.all(building);
      isBuilt = true;
      await Promise.all(writing);
      await assertIndexesAreRight(lab, `seed ${seed}, round ${round}`);
      for (const { index } of await lab.indexes.list(ACCOUNT)) assert.equal(index.state, "ready");
    }
  });

  it("tell how far their building has come, and how much is left", async () => {
    const lab = await openTable();
    for (let row = 0; row < 10; row++) {
      await lab.write(insertion("insert", "p", String(row), row < 8 ? '"A":"1"' : ""));
    }
    await lab.indexes.create(ACCOUNT, { name: "ByA", table: TABLE, key: "A:String" });
    const { index } = await lab.indexes.find(ACCOUNT, "ByA").then((kept) => kept!);
    const key = progressKey(lab.catalog.accountId(ACCOUNT), index.id);
    await lab.builder.step(ACCOUNT, "ByA", 4);
    const first = (await readProgress(lab.engine, key))!;
    assert.deepEqual([first.entities, first.entries, first.total], [4, 4, 10]);
    assert.equal(secondsLeft(first, first.startedAt + 8000), 12);
    await lab.write(insertion("insert", "q", "added later", '"A":"1"'));
    await lab.builder.step(ACCOUNT, "ByA", 6);
    const second = (await readProgress(lab.engine, key))!;
    assert.deepEqual([second.entities, second.entries, second.total], [10, 8, 10]);
    assert.equal(secondsLeft(second, second.startedAt + 8000), 0);
  });

  it("are not read as tables while entries may be missing, and tell what to do", async () => {
    const lab = await openTable();
    await lab.write(insertion("insert", "p", "r", '"A":"1"'));
    await lab.write(insertion("insert", "p", "s", '"A":"2"'));
    const reads = [
      async () => (await lab.entities.openToRead(ACCOUNT, "ByA")).opened.named.name,
      async () => (await lab.entities.get(ACCOUNT, "ByA", "2", "p!s")) && "ByA",
    ];
    const refused = async (message: RegExp) => {
      for (const read of reads) {
        await assert.rejects(read, (error) => {
          assert.ok(error instanceof ServiceError);
          assert.equal(error.code, "ServerBusy");
          assert.match(error.message, message);
          return true;
        });
      }
    };
    await lab.indexes.create(ACCOUNT, { name: "ByA", table: TABLE, key: "A:String" });
    await lab.builder.step(ACCOUNT, "ByA", 1);
    await refused(/ByA is building.*rowhouse index show ByA/);
    await lab.build("ByA");
    for (const read of reads) assert.equal(await read(), "ByA");
    const kept = (await lab.indexes.find(ACCOUNT, "ByA"))!;
    await lab.indexes.move(ACCOUNT, kept, ["ready"], "stale");
    await refused(/ByA is stale.*rowhouse index repair ByA/);
    await lab.indexes.move(ACCOUNT, kept, ["stale"], "ready");
    await lab.indexes.detach(ACCOUNT, "ByA");
    for (const read of reads) assert.equal(await read(), "ByA");
  });

  it("get no entry from a writer that does not know them", async () => {
    const engine = new MemoryEngine();
    const lab = await openTable(engine);
    const other = await openIndexLab(paused(engine));
    await lab.write(insertion("insert", "p", "old", '"A":"1"'));
    // The other process has read the table, and is stopped before its commit arrives.
    for (const mutation of [
      insertion("insert", "p", "r", '"A":"2"'),
      insertion("replace", "p", "old", '"A":"3"'),
      insertion("merge", "p", "old", '"A":"4"'),
      insertion("delete", "p", "old", ""),
    ]) {
      const name = `By${mutation.kind}${mutation.rowKey}`;
      const resume = pausing();
      const write = other.write(mutation);
      await resume.reached;
      await lab.declare(name, "A:String");
      resume.go();
      assert.equal((await write).committed, true);
      await assertIndexesAreRight(lab, mutation.kind);
    }
  });

  it("change in the commit of their entity: a process may die right after it", async () => {
    const engine = new MemoryEngine();
    const lab = await openTable(engine);
    await lab.declare("ByA", "A:String");
    for (const mutation of [
      insertion("insert", "p", "r", '"A":"1"'),
      insertion("replace", "p", "r", '"A":"2"'),
      insertion("merge", "p", "r", '"A":"3"'),
      insertion("delete", "p", "r", ""),
    ]) {
      const dying = await openIndexLab(dyingAfterOneCommit(engine));
      await dying.write(mutation).catch((error) => assert.match(String(error), /died/));
      await assertIndexesAreRight(lab, mutation.kind);
      assert.equal(await entryCount(lab, "ByA"), mutation.kind === "delete" ? 0 : 1);
    }
  });

  it("change with the whole entity, not with the patch: two indexed properties changed separately", async () => {
    const lab = await openTable();
    await lab.declare("ByAB", "A:String,B:String");
    await lab.write(insertion("insert", "p", "r", '"A":"1","B":"1"'));
    await lab.write(insertion("merge", "p", "r", '"A":"2"'));
    await lab.write(insertion("merge", "p", "r", '"B":"2"'));
    await assertIndexesAreRight(lab);
    assert.equal(await entryCount(lab, "ByAB"), 1);
  });

  it("do not fail the write of an entity that lacks a part of the key, and hold it unless that is the first", async () => {
    const lab = await openTable();
    await lab.declare("ByAB", "A:String,B:String");
    assert.equal((await lab.write(insertion("insert", "p", "r", '"A":"1"'))).committed, true);
    assert.equal((await lab.write(insertion("insert", "p", "s", '"B":"1"'))).committed, true);
    assert.equal(await entryCount(lab, "ByAB"), 1);
    await lab.write(insertion("merge", "p", "r", '"B":5'));
    await lab.write(insertion("merge", "p", "s", '"A":5'));
    assert.equal(await entryCount(lab, "ByAB"), 2);
    await lab.write(insertion("replace", "p", "s", '"B":5'));
    assert.equal(await entryCount(lab, "ByAB"), 1);
    await assertIndexesAreRight(lab);
  });

  it("leave the error of a transaction at its first impossible operation", async () => {
    const lab = await openTable();
    await lab.declare("ByA", "A:String");
    await lab.write(insertion("insert", "p", "b", '"A":"1"'));
    const outcome = await lab.write(
      insertion("replace", "p", "a", '"A":"2"'),
      insertion("insert", "p", "b", '"A":"2"'),
      insertion("delete", "p", "c", ""),
    );
    assert.ok(!outcome.committed);
    assert.deepEqual([outcome.index, outcome.error.code], [1, "EntityAlreadyExists"]);
    await assertIndexesAreRight(lab);
    assert.equal(await entryCount(lab, "ByA"), 1);
  });

  it("refuse every write to their tables, and name the command that drops them", async () => {
    const lab = await openTable();
    await lab.declare("ByA", "A:String");
    for (const kind of ["insert", "replace", "merge", "delete"] as const) {
      const outcome = await lab.entities.commit(ACCOUNT, "bya", [insertion(kind, "1", "p!r", "")]);
      assert.ok(!outcome.committed);
      assert.equal(outcome.error.code, "AuthorizationPermissionMismatch");
      assert.match(outcome.error.message, /rowhouse index drop/);
    }
  });

  it("that are stormed with upserts of one entity are right", async () => {
    const lab = await openTable();
    await lab.declare("ByA", "A:Int32");
    await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        lab.write(insertion(i % 2 === 0 ? "replace" : "merge", "p", "r", `"A":${i}`)),
      ),
    );
    assert.equal(await entryCount(lab, "ByA"), 1);
    await assertIndexesAreRight(lab);
  });
});

describe("The check of an index", () => {
  it("finds exactly what is missing, altered and surplus, and repairs it", async () => {
    const lab = await openTable();
    for (let i = 0; i < 600; i++) {
      await lab.write(insertion("insert", `p${i % 3}`, String(i), `"A":"${i}"`));
    }
    await lab.declare("ByA", "A:String");
    assert.deepEqual((await wholeCheck(lab, "ByA", false)).findings, none);
    const damage = await entriesOf(lab, "ByA");
    const [missing, altered, copied] = [damage[5]!, damage[300]!, damage[301]!];
    await lab.engine.commit({
      version: lab.engine.nextVersion(),
      checks: [],
      puts: [
        { key: altered.key, value: copied.value },
        {
          key: { ...copied.key, sort: Buffer.concat([copied.key.sort, Buffer.from("x")]) },
          value: copied.value,
        },
      ],
      deletes: [missing.key],
    });
    const found = await wholeCheck(lab, "ByA", false);
    // The altered entry also stands for an entity whose entry is another.
    assert.deepEqual(found.findings, { missing: 1, altered: 1, surplus: 2 });
    assert.equal((await lab.indexes.find(ACCOUNT, "ByA"))?.index.state, "stale");
    await wholeCheck(lab, "ByA", true);
    assert.deepEqual((await wholeCheck(lab, "ByA", false)).findings, none);
    assert.equal((await lab.indexes.find(ACCOUNT, "ByA"))?.index.state, "ready");
    await assertIndexesAreRight(lab);
  });

  it("repairs what it finds, also if the table's indexes change in the meantime", async () => {
    const engine = new MemoryEngine();
    const lab = await openTable(engine);
    const other = await openIndexLab(paused(engine));
    for (const row of ["1", "2", "3"]) {
      await lab.write(insertion("insert", "p", row, `"A":"${row}"`));
    }
    await lab.declare("ByA", "A:String");
    const deletes = (await entriesOf(lab, "ByA")).map(({ key }) => key);
    await engine.commit({ version: engine.nextVersion(), checks: [], puts: [], deletes });
    await wholeCheck(lab, "ByA", false);
    const resume = pausing();
    const repair = wholeCheck(other, "ByA", true);
    await resume.reached;
    await lab.declare("ByB", "B:String");
    resume.go();
    assert.deepEqual((await repair).findings, { ...none, missing: 3 });
    await assertIndexesAreRight(lab);
    assert.equal((await lab.indexes.find(ACCOUNT, "ByA"))?.index.state, "ready");
  });

  it("finds nothing beside writers, and repairs nothing that is right", async () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const random = randomFrom(seed);
    const lab = await openTable();
    for (const [name, key] of KEYS) await lab.declare(name, key);
    let isOver = false;
    const writing = Array.from({ length: 4 }, async () => {
      while (!isOver) {
        await lab.write(...randomMutations(random));
        await new Promise((resolve) => setImmediate(resolve));
      }
    });
    for (let round = 0; round < 10; round++) {
      for (const [name] of KEYS) {
        const { findings } = await wholeCheck(lab, name, round % 2 === 1);
        assert.deepEqual(findings, none, `${name}, seed ${seed}`);
      }
    }
    isOver = true;
    await Promise.all(writing);
    await assertIndexesAreRight(lab, `seed ${seed}`);
  });
});

describe("A declaration of an index", () => {
  it("that cannot be kept is refused with what is allowed, and leaves nothing", async () => {
    const lab = await openTable();
    await lab.declare("ByA", "A:String");
    const create = (name: string, key: string, table = TABLE) =>
      lab.indexes.create(ACCOUNT, { name, table, key });
    for (const [attempt, code, message] of [
      [() => create("a", "A"), "OutOfRangeInput", /3 to 63 letters and digits/],
      [() => create("By-A", "A"), "InvalidResourceName", /3 to 63 letters and digits/],
      [() => create("ByB", "B:Text"), "InvalidInput", /types are String, Int32/],
      [() => create("ByB", "A,B,C,D,E"), "InvalidInput", /at most 4/],
      [() => create("ByB", "B:String desc"), "InvalidInput", /cannot be sorted/],
      [() => create("ByB", "A", "Nothing"), "TableNotFound", /no table named Nothing/],
      [() => create("ByB", "basePK", "ByA"), "InvalidInput", /entries name their entity/],
      [() => create("ByB", "A", "ByA"), "InvalidInput", /is itself an index, of Things/],
      [
        () => lab.indexes.dryRun(ACCOUNT, { name: "DryRun", table: "ByA", key: "A" }),
        "InvalidInput",
        /is itself/,
      ],
      [() => create(TABLE, "A"), "TableAlreadyExists", /is the name of a table/],
      [() => create("bya", "B:String"), "TableAlreadyExists", /an index never changes/],
    ] as const) {
      await assert.rejects(attempt, (error) => {
        assert.ok(error instanceof ServiceError);
        assert.equal(error.code, code);
        assert.match(error.message, message);
        return true;
      });
    }
    for (let i = 1; i < 16; i++) await create(`Index${i}`, `P${i}:String`);
    await assert.rejects(create("OneMore", "A"), /has 16 indexes; at most 16/);
    assert.equal((await lab.indexes.list(ACCOUNT)).length, 16);
    assert.equal(await lab.catalog.find(ACCOUNT, "OneMore"), undefined);
  });

  it("can be tried first: the values, the commonest of them, and the size", async () => {
    const lab = await openTable();
    for (const [row, properties] of [
      ["1", '"A":"x"'],
      ["2", '"A":"x"'],
      ["3", '"A":"y"'],
      ["4", '"A":5'],
      ["5", '"B":5'],
    ] as const) {
      await lab.write(insertion("insert", "p", row, properties));
    }
    const result = await lab.indexes.dryRun(ACCOUNT, { name: "DryRun", table: TABLE, key: "A" });
    const { entryBytes, ...counts } = result;
    assert.deepEqual(counts, {
      key: "A:String",
      entities: 5,
      isWhole: true,
      entries: 4,
      otherTypes: 1,
      values: 3,
      commonest: { value: "'x'", entries: 2 },
      buildSeconds: 1,
    });
    assert.ok(entryBytes > 50 && entryBytes < 200);
    assert.deepEqual(await lab.indexes.list(ACCOUNT), []);
  });

  it("may be repeated, and takes undeclared types from the entities", async () => {
    const lab = await openTable();
    await lab.write(insertion("insert", "p", "r", '"A":5'));
    const declared = { name: "ByA", table: TABLE, key: "A,B" };
    const first = await lab.indexes.create(ACCOUNT, declared);
    assert.equal(first.created, true);
    assert.deepEqual(
      first.kept.index.parts.map(({ type }) => type),
      ["Edm.Int32", "Edm.String"],
    );
    assert.equal((await lab.indexes.create(ACCOUNT, declared)).created, false);
  });
});

describe("An index that is no longer kept", () => {
  it("is gone with its entries when it is dropped, also while it is being built", async () => {
    const lab = await openTable();
    await lab.write(insertion("insert", "p", "r", '"A":"1"'));
    await lab.indexes.create(ACCOUNT, { name: "ByA", table: TABLE, key: "A:String" });
    assert.equal(await lab.builder.step(ACCOUNT, "ByA", 1), "built");
    await lab.indexes.drop(ACCOUNT, "ByA");
    assert.equal(await lab.builder.step(ACCOUNT, "ByA"), "over");
    assert.deepEqual(await lab.indexes.list(ACCOUNT), []);
    await lab.write(insertion("replace", "p", "r", '"A":"2"'));
    assert.equal((await lab.catalog.removed(ACCOUNT)).length, 1);
  });

  it("is an ordinary table when it is detached", async () => {
    const lab = await openTable();
    await lab.declare("ByA", "A:String");
    await lab.write(insertion("insert", "p", "r", '"A":"1"'));
    await lab.indexes.detach(ACCOUNT, "ByA");
    await lab.write(insertion("replace", "p", "r", '"A":"2"'));
    const outcome = await lab.entities.commit(ACCOUNT, "ByA", [insertion("insert", "x", "y", "")]);
    assert.equal(outcome.committed, true);
    const table = await lab.catalog.find(ACCOUNT, "ByA");
    assert.deepEqual(table?.value, { policies: [] });
  });

  it("goes with its table", async () => {
    const lab = await openTable();
    await lab.declare("ByA", "A:String");
    const refuse = () => new Error("kept");
    await assert.rejects(lab.indexes.removeTable(ACCOUNT, "ByA", refuse), /kept/);
    assert.equal(await lab.indexes.removeTable(ACCOUNT, TABLE, refuse), true);
    assert.equal(await lab.catalog.find(ACCOUNT, "ByA"), undefined);
    assert.equal((await lab.catalog.removed(ACCOUNT)).length, 2);
  });
});

const none = { missing: 0, altered: 0, surplus: 0 };

async function openTable(engine: Engine = new MemoryEngine()): Promise<IndexLab> {
  const lab = await openIndexLab(engine);
  await lab.catalog.create(ACCOUNT, TABLE, { policies: [] });
  return lab;
}

/** All pieces of a check, in small ones. */
async function wholeCheck(lab: IndexLab, name: string, repairs: boolean) {
  const findings = { missing: 0, altered: 0, surplus: 0 };
  let from: Awaited<ReturnType<typeof lab.check.piece>>["next"];
  do {
    const piece = await lab.check.piece(ACCOUNT, name, { from, repairs, rows: 300 });
    for (const key of ["missing", "altered", "surplus"] as const) {
      findings[key] += piece.findings[key];
    }
    from = piece.next;
  } while (from);
  return { findings };
}

async function entriesOf(lab: IndexLab, name: string) {
  const table = await lab.catalog.find(ACCOUNT, name);
  const prefix = tablePrefix(lab.catalog.accountId(ACCOUNT), table!.id);
  const entries: { key: { partition: Uint8Array; sort: Uint8Array }; value: Uint8Array }[] = [];
  await lab.engine.scan(partitionPrefixRange(prefix), ({ key, value }) => {
    const { partition, sort } = key;
    entries.push({
      key: { partition: Uint8Array.from(partition), sort: Uint8Array.from(sort) },
      value: Uint8Array.from(value),
    });
    return true;
  });
  return entries;
}

async function entryCount(lab: IndexLab, name: string): Promise<number> {
  return (await entriesOf(lab, name)).length;
}

// --- A process that is stopped before a commit ------------------------------------------------

let gate: { readonly arrive: () => void; readonly open: Promise<void> } | undefined;

/** The next write of a paused engine stops before it is committed, until `go`. */
function pausing(): { readonly reached: Promise<void>; readonly go: () => void } {
  let go = () => {};
  let arrive = () => {};
  const open = new Promise<void>((resolve) => {
    go = resolve;
  });
  const reached = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  gate = { arrive, open };
  return { reached, go };
}

/** The same data, as a process sees it that dies after its first commit. */
function dyingAfterOneCommit(engine: MemoryEngine): Engine {
  let commits = 0;
  const once = async () => {
    if (++commits > 1) throw new Error("The process has died.");
  };
  return beforeCommits(engine, once);
}

/** The same data, as another process sees it whose commits can be held back. */
function paused(engine: MemoryEngine): Engine {
  const held = async () => {
    const current = gate;
    gate = undefined;
    current?.arrive();
    await current?.open;
  };
  return beforeCommits(engine, held);
}

/** The same data, through an engine that does something before each commit. */
function beforeCommits(engine: MemoryEngine, act: () => Promise<void>): Engine {
  return decorated(engine, {
    commit: async (write) => {
      await act();
      return engine.commit(write);
    },
    update: async (key, change, premise) => {
      await act();
      return engine.update(key, change, premise);
    },
  });
}
