import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { blobList } from "./blob-list.ts";
import { connect, entity, f, k } from "./index.ts";
import { jsonLines, logFiles } from "./logs.ts";
import { outbox } from "./outbox.ts";
import { createWorker } from "./queue-worker.ts";
import { remoteIndex } from "./remote-index.ts";
import { saga } from "./saga.ts";
import { memory } from "./testing.ts";

const Person = entity("Person", {
  version: 1,
  fields: { town: f.string(), id: f.int32(), email: f.string() },
  key: { partition: [k.str("town")], row: [k.lit("id"), k.uint("id", 6)] },
  indexes: {
    email: remoteIndex({
      table: "ByEmail",
      partition: [k.str("email")],
      row: [k.lit("owner")],
      unique: true,
    }),
    town: blobList({ container: "towns", name: [k.str("town")] }),
  },
  followers: { events: outbox({ queue: "events", message: () => undefined }) },
});

describe("provision", () => {
  it("has the queues and blobs that it was given, and says so in its type", async () => {
    const db = connect(memory());
    await db.queues.createQueue("given");
    await db.blobs.createContainer("given");
    const without = connect({ tables: memory().tables });
    assert.equal(without.blobs, undefined);
    // @ts-expect-error It was given none.
    assert.throws(() => without.blobs.createContainer("none"), TypeError);
  });

  it("creates every table, queue and container that is declared, once and again", async () => {
    const backend = memory();
    const db = connect(backend);
    const log = logFiles({ container: "logs", service: "web", format: jsonLines() });
    const move = saga("move", (steps) => steps.input<string>().step("one", async () => 1));
    const worker = createWorker(db, { queue: ["index-repairs", "events"], handlers: [move] });
    for (let round = 0; round < 2; round++) await db.provision(Person, log, move, worker);
    assert.deepEqual([...(await backend.tables.listTables({ from: "" })).names].sort(), [
      "ByEmail",
      "Person",
      "Sagas",
    ]);
    for (const name of ["index-repairs", "index-repairs-poison", "events", "work"]) {
      assert.deepEqual(await backend.queues.peek(name, 1), []);
    }
    for (const name of ["towns", "logs"]) {
      assert.deepEqual((await backend.blobs.list(name, {})).blobs, []);
    }
  });

  it("may have a memory backend with the time of the system, for a program without a server", async () => {
    const backend = memory({ clock: "real" });
    const before = Date.now();
    const now = backend.clock.now();
    assert.ok(before <= now && now <= Date.now(), String(now));
    await backend.clock.sleep(1);
    assert.ok(Date.now() >= before + 1);
    assert.equal(await connect(backend).tables.createTable("Town"), true);
  });

  it("leaves out what the database is not connected to", async () => {
    const { tables, clock } = memory();
    await connect({ tables, clock }).provision(Person);
    assert.deepEqual([...(await tables.listTables({ from: "" })).names].sort(), [
      "ByEmail",
      "Person",
      "rhcontrol",
    ]);
  });
});
