import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { changesetBytes } from "@rowhouse/protocol/batch-request";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import fc from "fast-check";
import type { Cell, Row } from "../entities.ts";
import { toJson } from "../entity-json.ts";
import { type Change, type Changes, idOf, TableEdits } from "../staged.ts";
import { readJsonDraft } from "./json-draft.ts";
import { differencesOf, settle } from "./three-way.ts";
import {
  groupIntoTransactions,
  inverseOf,
  operationOf,
  problemsOf,
  repeatedKeys,
} from "./transactions.ts";

const ADDRESS = { base: "http://h/a", table: "People" };

function row(rowKey: string, cells: Readonly<Record<string, Cell>> = {}, partitionKey = "p"): Row {
  return { partitionKey, rowKey, cells: new Map(Object.entries(cells)) };
}
const text = (value: string): Cell => ({ type: "Edm.String", text: value });
const known = (of: Row, etag = 'W/"1"') => ({ row: of, etag });
const update = (before: Row, after: Row): Change => ({
  kind: "update",
  row: after,
  base: known(before),
});

describe("Staged changes", () => {
  it("are saved as one transaction per partition, of up to 100 operations and 4 MiB, and nothing is left out", () => {
    const sizes = fc.constantFrom(0, 10, 20_000);
    const entity = fc.record({ p: fc.constantFrom("", "a", "b'", "ü"), size: sizes });
    fc.assert(
      fc.property(fc.array(entity, { maxLength: 320 }), (entities) => {
        const changes: Changes = new Map(
          entities.map(({ p, size }, i) => {
            const made = row(String(i), { v: text("x".repeat(size)) }, p);
            return [idOf(made), { kind: "insert", row: made, base: undefined } as const];
          }),
        );
        const groups = groupIntoTransactions(changes, ADDRESS);
        const ids = groups.flatMap(({ items }) => items.map(({ id }) => id));
        assert.deepEqual([...ids].sort(), [...changes.keys()].sort());
        for (const { partitionKey, items } of groups) {
          assert.ok(items.every(({ change }) => change.row.partitionKey === partitionKey));
          assert.ok(items.length <= 100);
          assert.ok(
            items.reduce((sum, each) => sum + changesetBytes(each.operation), 0) <= 4 * 2 ** 20,
          );
        }
        // No two neighbours of a partition would have fitted into one.
        for (let i = 1; i < groups.length; i++) {
          const [a, b] = [groups[i - 1]!, groups[i]!];
          if (a.partitionKey !== b.partitionKey) continue;
          assert.equal(b.part, a.part + 1);
          const bytes = [...a.items, b.items[0]!].reduce(
            (sum, each) => sum + changesetBytes(each.operation),
            0,
          );
          assert.ok(a.items.length === 100 || bytes > 4 * 2 ** 20);
        }
      }),
      { numRuns: 40 },
    );
  });

  it("send what changed alone, unless a property goes", () => {
    const before = row("1", {
      a: text("1"),
      b: text("2"),
      Timestamp: { type: "Edm.DateTime", text: "t" },
    });
    const merged = operationOf(update(before, row("1", { a: text("3"), b: text("2") })), ADDRESS);
    assert.equal(merged.words, "merge a");
    assert.equal(merged.operation.method, "MERGE");
    assert.equal(merged.operation.ifMatch, 'W/"1"');
    assert.deepEqual(JSON.parse(merged.operation.body!), {
      PartitionKey: "p",
      RowKey: "1",
      a: "3",
    });
    const replaced = operationOf(update(before, row("1", { a: text("") })), ADDRESS);
    assert.equal(replaced.words, "replace, without b");
    assert.equal(replaced.operation.method, "PUT");
    assert.deepEqual(JSON.parse(replaced.operation.body!), {
      PartitionKey: "p",
      RowKey: "1",
      a: "",
    });
  });

  it("are none where everything is as before", () => {
    const edits = new TableEdits();
    const before = row("1", { a: text("1") });
    edits.stage(idOf(before), update(before, row("1", { a: text("2") })));
    assert.equal(edits.changes.value.size, 1);
    edits.stage(idOf(before), update(before, row("1", { a: text("1") })));
    assert.equal(edits.changes.value.size, 0);
  });

  it("keep what cannot be stored, and say why", () => {
    const wrong = row("a/b", { n: { type: "Edm.Int32", text: "x" }, "1st": text("") });
    const problems = problemsOf({ kind: "insert", row: wrong, base: undefined });
    assert.deepEqual([...problems.keys()], ["RowKey", "n", "1st"]);
    const many = row(
      "1",
      Object.fromEntries(Array.from({ length: 253 }, (_, i) => [`p${i}`, text("")])),
    );
    assert.deepEqual([...problemsOf({ kind: "insert", row: many, base: undefined }).keys()], [""]);
    const twice = new Map<string, Change>([
      ["new 1", { kind: "insert", row: row("1"), base: undefined }],
      [idOf(row("1")), update(row("1"), row("1", { a: text("") }))],
    ]);
    assert.deepEqual(repeatedKeys(twice), [row("1")]);
  });

  it("are taken back by their inverse, which holds only for what they wrote", () => {
    const before = row("1", { a: text("1"), b: text("2") });
    const after = row("1", { a: text("3") });
    const changes: Change[] = [
      update(before, after),
      { kind: "delete", row: row("2", { c: text("") }), base: known(row("2", { c: text("") })) },
      { kind: "insert", row: row("3"), base: undefined },
    ];
    const inverse = inverseOf(changes, ['W/"7"', undefined, 'W/"8"']);
    assert.deepEqual(inverse, [
      { kind: "update", row: before, base: { row: after, etag: 'W/"7"' } },
      { kind: "insert", row: row("2", { c: text("") }), base: undefined },
      { kind: "delete", row: row("3"), base: { row: row("3"), etag: 'W/"8"' } },
    ]);
    const { operation } = operationOf(inverse[0]!, ADDRESS);
    assert.deepEqual(JSON.parse(operation.body!), {
      PartitionKey: "p",
      RowKey: "1",
      a: "1",
      b: "2",
    });
  });
});

describe("A conflict", () => {
  it("takes what one side changed, and asks about what both did", () => {
    const base = row("1", { a: text("1"), b: text("1"), c: text("1"), d: text("1") });
    const yours = row("1", { a: text("2"), b: text("1"), c: text("2") });
    const theirs = row("1", {
      a: text("1"),
      b: text("3"),
      c: text("3"),
      d: text("1"),
      e: text(""),
    });
    const found = differencesOf(base, yours, theirs);
    assert.deepEqual(
      found.map(({ name, side, isDisputed }) => [name, side, isDisputed]),
      [
        ["a", "yours", false],
        ["b", "theirs", false],
        ["c", "yours", true],
        ["d", "yours", false],
        ["e", "theirs", false],
      ],
    );
    const settled = settle(update(base, yours), known(theirs, 'W/"2"'), found);
    assert.deepEqual(settled.base, known(theirs, 'W/"2"'));
    assert.deepEqual(
      [...settled.row.cells].map(([name, cell]) => `${name}=${cell.text}`),
      ["a=2", "b=3", "c=2", "e="],
    );
  });
});

describe("The JSON of a draft", () => {
  it("is the same draft, for every entity that the service stores", () => {
    const value = fc.oneof(
      fc.string({ unit: "grapheme" }).map(text),
      fc.integer().map((n): Cell => ({ type: "Edm.Int32", text: String(n) })),
      fc
        .bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
        .map((n): Cell => ({ type: "Edm.Int64", text: String(n) })),
    );
    const name = fc.stringMatching(/^[a-z_][A-Za-z0-9_]{0,8}$/);
    fc.assert(
      fc.property(fc.dictionary(name, value), (cells) => {
        const entity = row("r", cells);
        assert.deepEqual(readJsonDraft(toJson(entity), entity), { row: entity, notes: [] });
        decodeEntity(Buffer.from(toJson(entity)));
      }),
    );
  });

  it("says what is wrong with it", () => {
    const read = (json: string) => {
      const draft = readJsonDraft(json, row("r"));
      return "problem" in draft
        ? draft.problem
        : JSON.stringify([[...draft.row.cells], draft.notes]);
    };
    const keys = '"PartitionKey":"p","RowKey":"r"';
    assert.match(read("{"), /JSON/);
    assert.match(read("[]"), /object/);
    assert.match(read('{"PartitionKey":"p"}'), /RowKey is missing/);
    assert.match(read('{"PartitionKey":"p","RowKey":"other"}'), /cannot change/);
    assert.match(read(`{${keys},"a":{"b":1}}`), /an object/);
    assert.match(read(`{${keys},"a":3000000000}`), /no Edm.Int32/);
    assert.match(read(`{${keys},"a":"x","a@odata.type":"Edm.Int64"}`), /no Edm.Int64/);
    assert.match(read(`{${keys},"a":"x","a@odata.type":"Edm.Float"}`), /has the type Edm.Float/);
    assert.match(read(`{${keys},"a b":"x"}`), /A name is/);
    assert.match(
      read(`{${keys},"a":null,"b":1.50}`),
      /\["b",\{"type":"Edm.Double","text":"1.5"\}.*“a” is null/,
    );
  });
});
