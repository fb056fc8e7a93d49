import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { KeyColumns } from "@rowhouse/protocol/entity-files";
import { previewOf, typeOfTexts } from "./preview.ts";

describe("A file before it is imported", () => {
  const preview = (text: string, format: "csv" | "jsonl", keys?: KeyColumns) => {
    async function* chunks() {
      yield new TextEncoder().encode(text);
    }
    return previewOf(chunks(), { format, name: "a", ...(keys && { keys }) });
  };

  it("has columns of the narrowest type that all of their texts look like", () => {
    const types = {
      "Edm.Int32": ["7", "-2147483648"],
      "Edm.Int64": ["7", "2147483648"],
      "Edm.Double": ["7", "1.5", "2E-3"],
      "Edm.Boolean": ["true", "false"],
      "Edm.DateTime": ["2026-01-02T03:04:05.1234567Z"],
      "Edm.Guid": ["c9da6455-213d-42c9-9a79-3e9149a57833"],
    };
    for (const [type, texts] of Object.entries(types)) assert.equal(typeOfTexts(texts), type);
    for (const texts of [[], ["007"], ["7", "x"], ["2026"].concat("2026-01"), ["AQID"], ["True"]])
      assert.equal(typeOfTexts(texts), "Edm.String", texts.join());
  });

  it("shows its columns, their types and the first keys, and guesses only where a file says nothing", async () => {
    const untyped = await preview("PartitionKey,RowKey,N,S\na,1,7,\na,2,8,x\n", "csv");
    assert.deepEqual(
      [...untyped.guesses!],
      [
        ["N", "Edm.Int32"],
        ["S", "Edm.String"],
      ],
    );
    assert.deepEqual(untyped.columns[1], {
      ...{ name: "S", types: ["Edm.String"], count: 1, example: "x" },
    });
    assert.equal(untyped.first[1]!.rowKey, "2");
    const typed = await preview("PartitionKey,RowKey,N,N@type\na,1,7,Int64\n", "csv");
    assert.equal(typed.guesses, undefined);
    const lines = await preview('{"PartitionKey":"a","RowKey":"1","N":1}\nnone\n', "jsonl");
    assert.deepEqual(
      [lines.records, lines.columns[0]!.types, lines.guesses],
      [...[2, ["Edm.Int32"], undefined]],
    );
  });

  it("says which keys it lacks, and how it looks with those that were chosen", async () => {
    const text = "year,title\n1984,Dune\n,Alien\n";
    const without = await preview(text, "csv");
    assert.deepEqual(without.lacks, ["PartitionKey", "RowKey"]);
    assert.deepEqual(
      without.columns.map(({ name }) => name),
      ["year", "title"],
    );
    const { first, lacks, faults } = await preview(text, "csv", {
      ...{ PartitionKey: "year", RowKey: "title" },
    });
    assert.deepEqual(
      first.map(({ partitionKey, rowKey }) => [partitionKey, rowKey]),
      [["1984", "Dune"]],
    );
    assert.deepEqual(lacks, ["PartitionKey", "RowKey"]);
    assert.match(faults[0]!, /^line 3: it has no value of year/);
    assert.deepEqual((await preview('{"RowKey":"r","n":1}', "jsonl")).lacks, ["PartitionKey"]);
    for (const none of ['{"PartitionKey":"","RowKey":"","n":1}', "nothing", ""])
      assert.deepEqual((await preview(none, "jsonl")).lacks, [], none);
  });
});
