import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Checkpoint } from "./checkpoint.ts";
import { compareTables, type Difference } from "./compare-tables.ts";
import { type CopyState, copyTable, Pace } from "./copy-table.ts";
import { readTablesToMove } from "./read-table.ts";
import type { TableConnection } from "./table-endpoint.ts";
import { change, EVERY_TYPE, fill } from "./test-entities.ts";
import { startTableServer } from "./test-table-server.ts";
import { TransferProgress } from "./transfer-progress.ts";

const QUIET = new TransferProgress("test");

async function copyAll(
  from: TableConnection,
  to: TableConnection,
  state: CopyState,
  checkpoint = new Checkpoint<CopyState>(undefined, "test"),
): Promise<number> {
  const pace = new Pace(Number.POSITIVE_INFINITY);
  const onRefused = () => assert.fail("Nothing is refused here.");
  return copyTable(
    {
      from,
      to,
      table: "films",
      where: undefined,
      parallel: 3,
      pace,
      progress: QUIET,
      dryRun: false,
      onRefused,
    },
    state,
    checkpoint,
  );
}

async function differences(from: TableConnection, to: TableConnection): Promise<Difference[]> {
  const found: Difference[] = [];
  await compareTables({
    from,
    to,
    table: "films",
    where: undefined,
    parallel: 3,
    progress: QUIET,
    onDifference: (difference) => found.push(difference),
  });
  return found;
}

const MANY = Array.from({ length: 3200 }, (_, i) =>
  change(
    `${1980 + (i % 7)}`,
    `film-${String(i).padStart(5, "0")}`,
    i % 50 === 0 ? EVERY_TYPE : `"I":${i}`,
  ),
);

describe("Copying all tables", () => {
  it("leaves out the indexes that the server keeps, and says how to declare them again", async () => {
    await using source = await startTableServer();
    const connection = source.connect();
    await fill(connection, "films", [change("1980", "a", EVERY_TYPE)]);
    const created = await connection.send({
      method: "PUT",
      path: "/_rowhouse/indexes/FilmsByI",
      headers: { "Content-Type": "application/json" },
      body: Buffer.from('{"table":"films","key":"I:Int32 desc"}'),
    });
    assert.equal(created.status, 201);
    const said: string[] = [];
    assert.deepEqual(await readTablesToMove(connection, (line) => said.push(line)), ["films"]);
    assert.equal(said.length, 1);
    assert.match(said[0]!, /rowhouse index create FilmsByI --table films --key 'I:Int32 desc'$/);
  });
});

describe("Copying a table between two endpoints", () => {
  it("keeps every entity and every type", async () => {
    await using source = await startTableServer();
    await using target = await startTableServer();
    await fill(source.connect(), "films", MANY);
    assert.equal(await copyAll(source.connect(), target.connect(), {}), MANY.length);
    assert.deepEqual(await differences(source.connect(), target.connect()), []);
  });

  it("goes on where it was stopped, and copies no more than a page of each range twice", async () => {
    await using source = await startTableServer();
    await using target = await startTableServer();
    await fill(source.connect(), "films", MANY);
    const folder = mkdtempSync(join(tmpdir(), "rowhouse-copy-"));
    const path = join(folder, "state");
    try {
      const stop = new AbortController();
      const stopping = new (class extends Checkpoint<CopyState> {
        override write(state: CopyState): void {
          super.write(state);
          if ((state.films?.entities ?? 0) > 0) stop.abort(new Error("stopped"));
        }
      })(path, "test");
      await assert.rejects(
        copyAll(source.connect(stop.signal), target.connect(), {}, stopping),
        /stopped/,
      );

      const again = new Checkpoint<CopyState>(path, "test");
      const state = again.read();
      assert.ok(state?.films !== undefined && state.films.entities > 0);
      assert.equal(await copyAll(source.connect(), target.connect(), state, again), MANY.length);
      assert.deepEqual(await differences(source.connect(), target.connect()), []);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("names every entity that is missing, surplus or different", async () => {
    await using source = await startTableServer();
    await using target = await startTableServer();
    await fill(source.connect(), "films", [
      change("a", "1", '"N":1'),
      change("b", "1"),
      change("c", "1"),
    ]);
    await fill(target.connect(), "films", [
      change("a", "1", '"N":1.0'),
      change("b", "1"),
      change("b", "2"),
    ]);
    const found = await differences(source.connect(), target.connect());
    assert.deepEqual(
      found.map(({ kind, partitionKey, rowKey }) => `${kind} ${partitionKey}/${rowKey}`),
      ["different a/1", "surplus b/2", "missing c/1"],
    );
  });
});

it("A state of another transfer is refused, and nothing is overwritten", () => {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-copy-"));
  try {
    const path = join(folder, "state");
    new Checkpoint<CopyState>(path, "copy of one").write({});
    assert.throws(() => new Checkpoint<CopyState>(path, "copy of another").read(), /copy of one/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
