import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { EntityFormat } from "@rowhouse/protocol/entity-files";
import type { WriteMode } from "@rowhouse/protocol/entity-writes";
import { Checkpoint } from "./checkpoint.ts";
import { compareTables } from "./compare-tables.ts";
import { Pace } from "./copy-table.ts";
import { exportTable } from "./export-table.ts";
import { type ImportStates, importFile } from "./import-file.ts";
import type { Reject } from "./rejects.ts";
import type { TableConnection } from "./table-endpoint.ts";
import { change, EVERY_TYPE, fill } from "./test-entities.ts";
import { startTableServer } from "./test-table-server.ts";
import { TransferProgress } from "./transfer-progress.ts";

const progress = new TransferProgress("test");

async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "rowhouse-files-"));
  try {
    await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function importAs(
  connection: TableConnection,
  path: string,
  format: EntityFormat,
  mode: WriteMode = "replace",
): Promise<{ readonly written: number; readonly rejects: Reject[] }> {
  const rejects: Reject[] = [];
  const written = await importFile(
    {
      path,
      format,
      connection,
      table: "films",
      mode,
      dryRun: false,
      pace: new Pace(Number.POSITIVE_INFINITY),
      progress,
      onReject: (reject) => rejects.push(reject),
    },
    {},
    new Checkpoint<ImportStates>(undefined, "test"),
  );
  return { written, rejects };
}

for (const format of ["jsonl", "csv"] as const) {
  it(`A table written as ${format} and read again is the same, every type in every row`, () =>
    inFolder(async (folder) => {
      await using source = await startTableServer();
      await using target = await startTableServer();
      const rows = Array.from({ length: 1100 }, (_, i) =>
        change("p,1", `"${i}"`, i % 3 === 0 ? EVERY_TYPE : `"Only${i % 5}":""`),
      );
      await fill(source.connect(), "films", rows);
      const options = { table: "films", where: undefined, folder, format, progress };
      const { path, entities } = await exportTable({ connection: source.connect(), ...options });
      assert.equal(entities, rows.length);
      assert.deepEqual(await importAs(target.connect(), path, format), {
        written: rows.length,
        rejects: [],
      });
      const compared = await compareTables({
        from: source.connect(),
        to: target.connect(),
        table: "films",
        where: undefined,
        parallel: 1,
        progress,
        onDifference: (difference) => assert.fail(JSON.stringify(difference)),
      });
      assert.equal(compared, rows.length);
    }));
}

describe("Importing a file", () => {
  it("refuses what is wrong with its line and reason, and writes all else", () =>
    inFolder(async (folder) => {
      await using server = await startTableServer();
      const path = join(folder, "films.jsonl");
      const lines = [
        '{"PartitionKey":"a","RowKey":"1","N":1}',
        "",
        '{"PartitionKey":"a","N":2}',
        "not json",
        '{"PartitionKey":"a","RowKey":"4","N@odata.type":"Edm.Guid","N":"no guid"}',
        '{"PartitionKey":"a","RowKey":"5","N":5}',
      ];
      writeFileSync(path, lines.join("\n"));
      const { written, rejects } = await importAs(server.connect(), path, "jsonl");
      assert.equal(written, 2);
      assert.deepEqual(
        rejects.map(
          ({ where, reason }) => `${where.split(" ").slice(1).join(" ")}: ${reason.split(":")[0]}`,
        ),
        ["line 3: PropertiesNeedValue", "line 4: it is no JSON", "line 5: InvalidInput"],
      );
    }));

  it("with --mode insert refuses entities that exist, and keeps them", () =>
    inFolder(async (folder) => {
      await using server = await startTableServer();
      await fill(server.connect(), "films", [change("a", "1", '"N":1')]);
      const path = join(folder, "films.jsonl");
      writeFileSync(
        path,
        '{"PartitionKey":"a","RowKey":"1","N":2}\n{"PartitionKey":"a","RowKey":"2","N":2}\n',
      );
      const { written, rejects } = await importAs(server.connect(), path, "jsonl", "insert");
      assert.equal(written, 1);
      assert.match(rejects[0]?.reason ?? "", /^409 EntityAlreadyExists/);
    }));

  it("reads typed CSV in either spelling of the types, and says which cell is wrong", () =>
    inFolder(async (folder) => {
      await using server = await startTableServer();
      const path = join(folder, "films.csv");
      const rows = [
        "PartitionKey,RowKey,Timestamp,N,N@type,S,S@type",
        "a,1,,7,Edm.Int32,,",
        "a,2,,7,Double,,String",
        "a,3,,seven,Int32,,",
        "a,4,,7,Number,,",
        "a,5,,7,,,",
        "a,6",
      ];
      writeFileSync(path, `\ufeff${rows.join("\r\n")}\r\n`);
      const { written, rejects } = await importAs(server.connect(), path, "csv");
      assert.equal(written, 2);
      assert.deepEqual(
        rejects.map(({ reason }) => reason),
        [
          'N is "seven", which is no Int32.',
          'N has the type "Number"; the types are String, Int32, Int64, Double, Boolean, DateTime, Guid, Binary.',
          "N has a value and no type.",
          "2 cells, where the first line names 7 columns.",
        ],
      );
      const out = join(folder, "out");
      mkdirSync(out);
      const exported = await exportTable({
        connection: server.connect(),
        table: "films",
        where: undefined,
        folder: out,
        format: "jsonl",
        progress,
      });
      const stored = readFileSync(exported.path, "utf8").trim().split("\n");
      assert.deepEqual(
        stored.map((line) => line.replace(/"Timestamp":"[^"]*",?/, "")),
        [
          '{"PartitionKey":"a","RowKey":"1","N":7}',
          '{"PartitionKey":"a","RowKey":"2","N":7.0,"S":""}',
        ],
      );
    }));
});
