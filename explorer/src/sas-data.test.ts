import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  filterOutside,
  parametersOf,
  problemOf,
  type SasForm,
  sentenceOf,
  trialsOf,
} from "./sas-data.ts";

describe("A shared access signature in the form", () => {
  const keys = { fromPartition: "", fromRow: "", toPartition: "", toRow: "" };
  const form: SasForm = {
    ...{ kind: "table", name: "Films", blob: "", permissions: "dr" },
    ...{ end: Date.UTC(2026, 10, 29, 10, 30), addresses: "", isHttpsOnly: false, keys },
  };
  const range = { fromPartition: "1984", fromRow: "A", toPartition: "1986", toRow: "" };

  it("says in a sentence what it opens", () => {
    assert.equal(
      sentenceOf(form, "UTC"),
      "Whoever has it may read entities and delete entities in the table Films, until 29 Nov 2026, 10:30 (2026-11-29T10:30Z).",
    );
    assert.match(
      sentenceOf({ ...form, keys: range }),
      /Films, rows from \(“1984”, “A”\) to “1986” inclusive,/,
    );
    const one = { ...keys, fromPartition: "p", toPartition: "p" };
    assert.match(sentenceOf({ ...form, keys: one }), /partition “p” alone/);
    const blob = { ...form, kind: "blob", name: "c", blob: "a/b", permissions: "r" } as const;
    assert.match(
      sentenceOf({ ...blob, addresses: "10.0.0.1", isHttpsOnly: true }),
      /may read it in the blob c\/a\/b, until .*, from 10\.0\.0\.1 only, over HTTPS only\.$/,
    );
  });

  it("becomes parameters in the order that the services require, without empty ones", () => {
    assert.deepEqual(parametersOf({ ...form, keys: range }), {
      service: "table",
      resource: "Films",
      parameters: {
        ...{ sv: "2019-02-02", tn: "Films", sp: "rd", se: "2026-11-29T10:30:00Z" },
        ...{ spk: "1984", srk: "A", epk: "1986" },
      },
    });
    const blob = parametersOf({ ...form, kind: "blob", name: "c", blob: "a/b" });
    assert.deepEqual([blob.service, blob.resource, blob.parameters.sr], ["blob", "c/a/b", "b"]);
    assert.equal(parametersOf({ ...form, kind: "account" }).parameters.ss, "btq");
  });

  it("is not made while something is missing or holds nothing", () => {
    const now = form.end - 1000;
    assert.equal(problemOf(form, now), undefined);
    assert.match(problemOf({ ...form, name: "" }, now)!, /Name the table/);
    assert.match(problemOf({ ...form, permissions: "" }, now)!, /Choose/);
    assert.match(problemOf(form, form.end)!, /ended/);
    assert.match(
      problemOf({ ...form, keys: { ...keys, fromRow: "x" } }, now)!,
      /needs a first partition/,
    );
    const inverted = { ...range, fromPartition: "1987" };
    assert.match(problemOf({ ...form, keys: inverted }, now)!, /holds no entity/);
  });

  it("is tried with requests that change nothing", () => {
    const outside = { PartitionKey: "1987", RowKey: "It's" };
    const [allowed, refused] = trialsOf({ ...form, keys: range }, outside);
    assert.deepEqual([allowed!.isAllowed, allowed!.path], [true, "/Films()"]);
    assert.deepEqual(
      [refused!.isAllowed, refused!.path],
      [false, "/Films(PartitionKey='1987',RowKey='It''s')"],
    );
    assert.equal(trialsOf({ ...form, keys: range })[1]!.path, "/Tables");
    assert.equal(
      filterOutside(range),
      "PartitionKey lt '1984' or (PartitionKey eq '1984' and RowKey lt 'A') or PartitionKey gt '1986'",
    );
    assert.equal(filterOutside(keys), undefined);
    assert.deepEqual(
      trialsOf({ ...form, kind: "queue", permissions: "p" }).map(({ isAllowed }) => isAllowed),
      [false],
    );
  });
});
