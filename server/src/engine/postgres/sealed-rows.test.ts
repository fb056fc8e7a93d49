import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { key, put, scanAll, text } from "../conformance/steps.ts";
import { EngineError } from "../engine.ts";
import { EVERYTHING } from "../key-codec.ts";
import { openPostgresEngine, type PostgresEngine } from "./postgres-engine.ts";
import { runAt, type TestServer, testServer } from "./test-server.ts";

describe("A value that is damaged in PostgreSQL", () => {
  let server: TestServer;
  let url: string;
  let engine: PostgresEngine;

  before(async () => {
    server = await testServer();
    url = await server.createDatabase();
    engine = await openPostgresEngine({ allowUnsafe: true, url });
  });
  after(async () => {
    await engine.close();
    await server.dropDatabase(url);
    await server.stop();
  });

  it("fails the reads that meet it, and is left out and reported where that is wanted", async () => {
    for (const name of ["a", "b", "c", "d"]) await put(engine, key("p", name), `value of ${name}`);
    await runAt(url, [
      "UPDATE rh_kv SET val = set_byte(val, 3, 0) WHERE pk = 'p' AND sk = 'b'",
      // An intact value of another key.
      "UPDATE rh_kv SET val = (SELECT val FROM rh_kv WHERE pk = 'p' AND sk = 'a') WHERE pk = 'p' AND sk = 'd'",
    ]);
    const isDamaged = (error: unknown) =>
      error instanceof EngineError && error.code === "Corrupt" && error.key !== undefined;
    await assert.rejects(engine.get([key("p", "b")]), isDamaged);
    await assert.rejects(engine.get([key("p", "a"), key("p", "d")]), isDamaged);
    await assert.rejects(scanAll(engine), isDamaged);
    const seen: string[] = [];
    const visit = (entry: { key: { sort: Uint8Array } }) => seen.push(text(entry.key.sort)) > 0;
    const damaged: string[] = [];
    const onDamaged = (error: EngineError) =>
      void damaged.push(error.key ? text(error.key.sort) : "");
    assert.equal(await engine.scan(EVERYTHING, visit, { onDamaged }), "complete");
    assert.deepEqual(
      [seen, damaged],
      [
        ["a", "c"],
        ["b", "d"],
      ],
    );
    // The database itself reported nothing: everything else is served.
    assert.equal((await engine.health()).ready, true);
  });
});
