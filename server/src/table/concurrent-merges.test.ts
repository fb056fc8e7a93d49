import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { ServiceError } from "@rowhouse/protocol/errors";
import { Catalog } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import { systemClock } from "../clock.ts";
import { type LmdbEngine, openLmdbEngine } from "../engine/lmdb/lmdb-engine.ts";
import { EntityStore } from "./entity-store.ts";
import type { CommitOutcome, Mutation } from "./mutation.ts";
import { RecordView } from "./record-view.ts";
import type { TableValue } from "./table-value.ts";

describe("an entity store over LMDB", () => {
  it("commits concurrent merges with one flush, including those of the same entity", () =>
    withStore(async ({ engine, store }) => {
      const merges = ["A", "B", "C", "D"].map((property) => merge("r", `{"${property}":1}`));
      const before = engine.statistics();
      const outcomes = await Promise.all(
        [...merges, merge("other", `{"E":1}`)].map((each) => store.commit("acc", "t", [each])),
      );
      const after = engine.statistics();
      assert.ok(outcomes.every(({ committed }) => committed));
      assert.equal(after.commits - before.commits, 5);
      assert.equal(after.flushes - before.flushes, 1);
      assert.equal(propertiesOf(await store.get("acc", "t", "p", "r")), `,"A":1,"B":1,"C":1,"D":1`);
    }));

  it("commits a replace and the merge that follows it with one flush, and keeps what both wrote", () =>
    withStore(async ({ engine, store }) => {
      const before = engine.statistics().flushes;
      await Promise.all([
        store.commit("acc", "t", [{ ...merge("r", `{"Replaced":1}`), kind: "replace" }]),
        store.commit("acc", "t", [merge("r", `{"Merged":1}`)]),
      ]);
      assert.equal(engine.statistics().flushes - before, 1);
      assert.equal(propertiesOf(await store.get("acc", "t", "p", "r")), `,"Replaced":1,"Merged":1`);
    }));

  it("merges into entities of any size, before and after they are on disk", () =>
    withStore(async ({ store }) => {
      // Below and above the size that lmdb-js reads into its shared buffer and that fits a page.
      for (const length of [10, 5000, 20_000, 32_000]) {
        const texts = Array.from({ length: 4 }, (_, i) => `"T${i}":"${`${i}`.repeat(length)}"`);
        const row = `r${length}`;
        await Promise.all([
          store.commit("acc", "t", [{ ...merge(row, `{${texts.join(",")}}`), kind: "replace" }]),
          store.commit("acc", "t", [merge(row, `{"Together":1}`)]),
        ]);
        await store.commit("acc", "t", [merge(row, `{"Behind":1}`)]);
        const expected = `,${texts.join(",")},"Together":1,"Behind":1`;
        assert.ok(propertiesOf(await store.get("acc", "t", "p", row)) === expected, `${length}`);
      }
    }));

  it("refuses a merge that requires a missing entity, and commits the merge made with it", () =>
    withStore(async ({ store }) => {
      const [refused, merged] = await Promise.all([
        store.commit("acc", "t", [{ ...merge("absent", `{"A":1}`), ifMatch: "*" }]),
        store.commit("acc", "t", [merge("r", `{"A":1}`)]),
      ]);
      assert.equal(codeOf(refused), "ResourceNotFound");
      assert.ok(merged.committed);
      assert.equal(await store.get("acc", "t", "p", "absent"), undefined);
    }));

  it("refuses a merge into a deleted table", () =>
    withStore(async ({ catalog, store }) => {
      await store.commit("acc", "t", [merge("r", `{"A":1}`)]);
      await catalog.remove("acc", "t");
      assert.equal(
        codeOf(await store.commit("acc", "t", [merge("r", `{"A":1}`)])),
        "TableNotFound",
      );
    }));
});

interface Lab {
  readonly engine: LmdbEngine;
  readonly catalog: Catalog<TableValue>;
  readonly store: EntityStore;
}

async function withStore(test: (lab: Lab) => Promise<void>): Promise<void> {
  const path = mkdtempSync(join(tmpdir(), "rowhouse-entities-"));
  const engine = await openLmdbEngine({ path });
  try {
    const ids = new Map([["acc", 1]]);
    const catalog = new Catalog<TableValue>(engine, KEY_SPACES.tableCatalog, ids, systemClock);
    await catalog.create("acc", "t", { policies: [] });
    const store = new EntityStore(engine, catalog, systemClock);
    // Remembers the table, as in a server, so that writes reach the engine in the order they were made.
    await store.openTable("acc", "t");
    await test({ engine, catalog, store });
  } finally {
    await engine.close();
    rmSync(path, { recursive: true });
  }
}

function merge(rowKey: string, json: string): Mutation {
  const address = { partitionKey: "p", rowKey };
  const entity = decodeEntity(Buffer.from(json), address);
  return { kind: "merge", ...address, entity, ifMatch: undefined };
}

function propertiesOf(record: Uint8Array | undefined): string {
  assert.ok(record, "The entity is missing.");
  const view = new RecordView();
  view.reset(record);
  return Buffer.from(record.subarray(view.propertiesAt)).toString();
}

function codeOf(outcome: CommitOutcome): string {
  assert.ok(!outcome.committed, "The write was committed instead of refused.");
  assert.ok(outcome.error instanceof ServiceError);
  return outcome.error.code;
}
