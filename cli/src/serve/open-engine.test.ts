import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { pino } from "pino";
import { openEngine } from "./open-engine.ts";

describe("Opening a data folder", () => {
  for (const { written, warnings } of [
    { written: "now", warnings: [] },
    { written: "by a clock an hour ahead", warnings: [3600] },
  ]) {
    it(`that was written ${written} ${warnings.length === 0 ? "logs no warning" : "logs one warning"}`, async () => {
      const location = mkdtempSync(join(tmpdir(), "rowhouse-"));
      const aheadMs = (warnings[0] ?? 0) * 1000;
      const writer = await openLmdbEngine({
        path: location,
        clock: { now: () => Date.now() + aheadMs },
      });
      const key = { partition: Buffer.from("p"), sort: Buffer.from("s") };
      const put = { key, value: Buffer.from("v") };
      await writer.commit({
        version: writer.nextVersion(),
        ...{ checks: [], puts: [put], deletes: [] },
      });
      await writer.close();

      const logged: { level: number; aheadSeconds: number }[] = [];
      const log = pino({}, { write: (line) => logged.push(JSON.parse(line)) });
      const { engine } = await openEngine({ location, preparedStatements: true }, log);
      const found = logged.filter(({ level }) => level >= 40).map((line) => line.aheadSeconds);
      assert.equal(found.length, warnings.length);
      // Tolerates the duration of the test.
      for (const [index, seconds] of found.entries()) {
        assert.ok(Math.abs(seconds - warnings[index]!) < 60, `${seconds} s`);
      }
      await engine.close();
      rmSync(location, { recursive: true });
    });
  }

  it("that goes away is not ready, for anybody, and says why in the log, once", async () => {
    const location = mkdtempSync(join(tmpdir(), "rowhouse-"));
    const logged: string[] = [];
    const log = pino({}, { write: (line) => logged.push(line) });
    const { engine, health } = await openEngine({ location, preparedStatements: true }, log);
    rmSync(location, { recursive: true });
    for (let i = 0; i < 2; i++) {
      const { ready, detail } = await health();
      assert.equal(ready, false);
      assert.deepEqual(detail, {
        engine: engine.name,
        durability: "disk",
        writes: "refused: the reason is in the log",
      });
    }
    assert.equal(logged.filter((line) => line.includes(location)).length, 1);
    await engine.close();
  });

  it("whose folder of contents goes away is not ready until it is there again", async () => {
    const location = mkdtempSync(join(tmpdir(), "rowhouse-"));
    const contents = join(location, "contents");
    const logged: string[] = [];
    const log = pino({}, { write: (line) => logged.push(line) });
    const { engine, health } = await openEngine({ location, preparedStatements: true }, log);
    const isReady = async () => (await health()).ready;
    assert.equal(await isReady(), true, "without blobs");
    mkdirSync(contents);
    assert.equal(await isReady(), true);
    rmSync(contents, { recursive: true });
    assert.equal(await isReady(), false);
    assert.equal((await health()).detail.contents, "missing: the reason is in the log");
    assert.equal(logged.filter((line) => line.includes(`${contents} is missing`)).length, 1);
    mkdirSync(contents);
    assert.equal(await isReady(), true);
    await engine.close();
    rmSync(location, { recursive: true });
  });
});
