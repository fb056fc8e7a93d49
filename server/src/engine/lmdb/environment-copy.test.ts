import assert from "node:assert/strict";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { assertAbove, key, mustCommit, patternBytes, put, scanAll } from "../conformance/steps.ts";
import { EngineError, type Entry } from "../engine.ts";
import { EnvironmentCopy } from "./environment-copy.ts";
import { openLmdbEngine } from "./lmdb-engine.ts";

const ENTRIES = 20_000;
const VALUE_BYTES = 1000;

for (const walksMap of [true, false]) {
  describe(`A copy of an environment, read ${walksMap ? "in the memory map" : "through the binding"}`, () => {
    let folder: string;

    before(() => {
      folder = mkdtempSync(join(tmpdir(), "rowhouse-copy-"));
    });
    after(() => rmSync(folder, { recursive: true }));

    it("contains the entries and versions of one moment, despite concurrent writes", async () => {
      const path = join(folder, "source");
      const source = await openLmdbEngine({ path, walksMap, snapshotMsMax: 0 });
      // Scattered, as users' keys are: pages are split in the middle.
      for (let at = 0; at < ENTRIES; at += 1000) {
        const some = Array.from({ length: 1000 }, (_, i) => keyOf(at + i));
        await mustCommit(source, {
          puts: some.map((each, i) => [each, patternBytes(VALUE_BYTES - (i % 100))]),
        });
      }
      await put(source, key("large", "1"), patternBytes(300_000));
      const before = await scanAll(source);

      let copied = 0;
      const writing: Promise<unknown>[] = [];
      const target = join(folder, "target");
      const onCopied = () => {
        if (copied++ % 500 === 0) {
          writing.push(
            mustCommit(source, {
              puts: [
                [keyOf(copied), "changed"],
                [key("zzz", `${copied}`), "new"],
              ],
              deletes: [keyOf(ENTRIES - copied)],
            }),
          );
        }
      };
      await source.copyTo(target, { onCopied, onDamaged: assert.fail });
      assert.ok((await Promise.all(writing)).length > 10);
      assert.equal(copied, before.length);

      const copy = await openLmdbEngine({ path: target });
      assertSameEntries(await scanAll(copy), before);
      // Versions written in the copy are above all versions written in the source.
      assertAbove(copy.meta().versionsReserved, Math.max(...before.map(({ version }) => version)));
      await source.close();
      await copy.close();

      const rawBytes = before.reduce((sum, { value }) => sum + value.length, 0);
      const ratio = statSync(join(target, "data.mdb")).size / rawBytes;
      assert.ok(ratio < 1.25, `The copy takes ${ratio.toFixed(2)} times its values.`);
    });

    it("is refused when the target cannot be written", async () => {
      const source = await openLmdbEngine({ path: join(folder, "second"), walksMap });
      await put(source, keyOf(1), "1");
      await assert.rejects(
        source.copyTo(join(folder, "second", "data.mdb", "x"), {
          onCopied() {},
          onDamaged: assert.fail,
        }),
        EngineError,
      );
      await source.close();
    });
  });
}

it("A copy writes its entries every few MB, even if they have no values", async () => {
  const path = mkdtempSync(join(tmpdir(), "rowhouse-copy-"));
  const copy = new EnvironmentCopy({ path, mapSizeBytes: 2 ** 30, readersMax: 8 });
  const value = new Uint8Array(0);
  for (let i = 0; i < ENTRIES; i++) {
    const name = `${i}`.padStart(200, "0");
    copy.put({ key: key("p", name), value, version: 1 });
  }
  assertAbove(statSync(join(path, "data.mdb")).size, 2e6);
  await copy.close();
  rmSync(path, { recursive: true });
});

function keyOf(i: number) {
  return key("p", ((i * 7919) % ENTRIES).toString().padStart(8, "0"));
}

function assertSameEntries(actual: readonly Entry[], expected: readonly Entry[]): void {
  assert.equal(actual.length, expected.length);
  for (const [i, { key, value, version }] of expected.entries()) {
    const found = actual[i]!;
    assert.deepEqual(Buffer.from(found.key.sort), Buffer.from(key.sort));
    assert.ok(Buffer.from(found.value).equals(value), `Entry ${i} has another value.`);
    assert.equal(found.version, version);
  }
}
