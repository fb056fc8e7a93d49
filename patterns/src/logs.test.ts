import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import { connect, type Database, isTableError } from "./index.ts";
import { delimited, type LogWriterOptions, logFiles } from "./logs.ts";
import type { Layer } from "./store/layer.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { intercept, withFaults } from "./testing/intercept.ts";
import { interleave } from "./testing/interleave.ts";
import { type Memory, memory } from "./testing/memory.ts";
import { histories, schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";

const Requests = logFiles({
  container: "logs",
  service: "queue",
  format: delimited("level", "message"),
});
type Entry = { at: Date; level: string; message: string };

const at = (time: string) => new Date(`2014-07-31T${time}Z`);
const entry = (time: string, message = time, level = "info"): Entry => ({
  at: at(time),
  level,
  message,
});
const WHOLE = { from: new Date("2014-07-30"), to: new Date("2014-08-02") };
const EACH = { durability: "each" } as const;

async function open() {
  const backend = memory();
  const db = connect(backend);
  await backend.blobs.createContainer("logs");
  return { backend, db, log: db.open(Requests) };
}

async function messagesIn(db: Database, query = WHOLE): Promise<string[]> {
  const messages: string[] = [];
  for await (const { message } of db.open(Requests).read(query)) messages.push(message);
  return messages;
}

const filesOf = async ({ blobs }: Pick<Memory, "blobs">) => (await blobs.list("logs", {})).blobs;
const namesOf = async (backend: Memory) => (await filesOf(backend)).map(({ name }) => name);

async function contentOf({ blobs }: Memory, name: string): Promise<string> {
  return new TextDecoder().decode((await blobs.get("logs", name))?.body);
}

async function writeAll(db: Database, entries: readonly Entry[], options: LogWriterOptions = {}) {
  const writer = db.open(Requests).writer(options);
  for (const one of entries) await writer.write(one);
  await writer.close();
}

describe("a log in append blobs", () => {
  it("stores records in the folder of their hour, and describes a closed file in its metadata", async () => {
    const { backend, db } = await open();
    await writeAll(db, [entry("17:59:59.500"), entry("18:03:00", 'a;"b"'), entry("18:01:00")]);
    assert.deepEqual(await namesOf(backend), [
      "queue/2014/07/31/1700/000001.log",
      "queue/2014/07/31/1800/000001.log",
    ]);
    assert.equal(
      await contentOf(backend, "queue/2014/07/31/1800/000001.log"),
      '2014-07-31T18:03:00.000Z;info;"a;\\"b\\""\n2014-07-31T18:01:00.000Z;info;18:01:00\n',
    );
    const [, { writer, ...metadata } = {}] = (await filesOf(backend)).map((file) => file.metadata);
    assert.equal(writer?.length, 26);
    assert.deepEqual(metadata, {
      starttime: "2014-07-31T18:01:00.000Z",
      endtime: "2014-07-31T18:03:00.000Z",
      sealed: "true",
    });
  });

  it("costs one request for each flush, one to create a file and one to close it", async () => {
    const { backend } = await open();
    const records = Array.from({ length: 100 }, (_, i) => entry("18:00:00", `${i}`));
    const flush = { records: 10 };
    const { requests } = await connect(backend).metered(async (db) => {
      const writer = db.open(Requests).writer({ flush });
      for (const [i, record] of records.entries()) {
        await writer.write(record);
        if (i % 10 === 9) await writer.flush();
      }
      await writer.close();
    });
    assert.equal(requests, 12);
    const reading = await connect(backend).metered((db) => messagesIn(db, { ...HOUR }));
    assert.deepEqual([reading.requests, reading.result.length], [2, 100]);
  });

  it("reads a few minutes from the folder of their hour, skipping files that ended before", async () => {
    const { backend, db } = await open();
    await writeAll(db, [entry("14:30:00"), entry("15:01:00"), entry("15:02:00")]);
    await writeAll(db, [entry("15:03:00"), entry("15:04:30", "found", "error"), entry("15:06:00")]);
    await writeAll(db, [entry("15:30:00")]);
    const query = { from: at("15:04:00"), to: at("15:06:00") };
    const { requests, result } = await connect(backend).metered((own) => messagesIn(own, query));
    assert.deepEqual([requests, result], [2, ["found"]]);
    const errors: Entry[] = [];
    const isError = ({ level }: Entry) => level === "error";
    for await (const one of db.open(Requests).read({ ...WHOLE, where: isError })) errors.push(one);
    assert.deepEqual(errors, [entry("15:04:30", "found", "error")]);
  });

  it("reads open files whatever their metadata say", async () => {
    const { db, log } = await open();
    const writer = log.writer(EACH);
    await writer.write(entry("18:10:00"));
    await writer.write(entry("18:05:00", "late"));
    assert.deepEqual(await messagesIn(db, { from: at("18:04:00"), to: at("18:06:00") }), ["late"]);
    await writer.close();
    assert.deepEqual(await messagesIn(db, { from: at("18:04:00"), to: at("18:06:00") }), ["late"]);
    const last = { from: at("18:09:00"), to: at("18:11:00") };
    assert.deepEqual(await messagesIn(db, last), ["18:10:00"]);
  });

  it("starts a new file in the old hour if record times go back", async () => {
    const { backend, db, log } = await open();
    const writer = log.writer(EACH);
    for (const time of ["18:59:59", "19:00:00", "18:59:58", "19:00:01"]) {
      await writer.write(entry(time));
    }
    await writer.close();
    assert.deepEqual(await namesOf(backend), [
      "queue/2014/07/31/1800/000001.log",
      "queue/2014/07/31/1800/000002.log",
      "queue/2014/07/31/1900/000001.log",
    ]);
    assert.deepEqual(await messagesIn(db), ["18:59:58", "18:59:59", "19:00:00", "19:00:01"]);
  });

  it("starts a new file at its limits, and if the service reports one as full", async () => {
    const records = Array.from({ length: 7 }, (_, i) => entry(`18:00:0${i}`));
    for (const [options, blocksMax, files] of [
      [{ file: { blocks: 7 } }, 50_000, 1],
      [{ file: { blocks: 6 } }, 50_000, 2],
      [{ file: { blocks: 2 } }, 50_000, 4],
      [{ file: { bytes: 80 } }, 50_000, 3],
      [{}, 7, 1],
      [{}, 6, 2],
      [{}, 2, 4],
    ] as const) {
      const backend = memory({ blocksMax });
      const db = connect(backend);
      await writeAll(db, records, { ...EACH, ...options });
      assert.equal((await namesOf(backend)).length, files, JSON.stringify([options, blocksMax]));
      assert.ok((await filesOf(backend)).every(({ metadata }) => metadata.sealed === "true"));
      assert.deepEqual(
        await messagesIn(db),
        records.map(({ message }) => message),
      );
    }
  });

  it("never splits a record, and refuses records that are too long, undated, broken over lines or after close", async () => {
    const { backend, db, log } = await open();
    const writer = log.writer();
    const rest = 4 * 1024 * 1024 - "2014-07-31T18:00:00.000Z;info;\n".length;
    await assert.rejects(writer.write(entry("18:00:00", "x".repeat(rest + 1))), (error) =>
      isTableError(error, "validation-failed"),
    );
    await writer.write(entry("18:00:00", "x".repeat(rest)));
    await writer.write(entry("18:00:01", "y"));
    await writer.close();
    assert.deepEqual(
      (await messagesIn(db)).map(({ length }) => length),
      [rest, 1],
    );
    assert.equal((await namesOf(backend)).length, 1);
    await assert.rejects(writer.write(entry("18:00:02")), (error) =>
      isTableError(error, "validation-failed"),
    );
    for (const line of ["a\nb", "a\n"]) {
      const format = { ...delimited("level", "message"), encode: () => line };
      const broken = logFiles({ container: "logs", service: "queue", format });
      await assert.rejects(db.open(broken).writer().write(entry("18:00:00")), {
        code: "validation-failed",
      });
    }
    const noTime = { ...entry("18:00:00"), at: new Date(Number.NaN) };
    await assert.rejects(log.writer().write(noTime), (error) =>
      isTableError(error, "validation-failed"),
    );
  });

  it("acknowledges a record once it is stored, while other records are still in flight", async () => {
    const { backend } = await open();
    const appends: (() => void)[] = [];
    const held = intercept(backend, async (call, send) => {
      if (call.method === "append") await new Promise<void>((go) => appends.push(go));
      return send();
    });
    const begun = async (count: number) => {
      while (appends.length < count) await new Promise(setImmediate);
    };
    const writer = connect({ ...backend, ...held })
      .open(Requests)
      .writer(EACH);
    const first = writer.write(entry("18:00:00"));
    await begun(1);
    const [second, third] = [writer.write(entry("18:00:01")), writer.write(entry("19:00:00"))];
    appends[0]!();
    await first;
    await begun(2);
    appends[1]!();
    await second;
    await begun(3);
    assert.deepEqual(
      (await filesOf(backend)).map(({ length }) => length > 0),
      [true, false],
    );
    appends[2]!();
    await third;
    assert.equal(appends.length, 3);
  });

  it("flushes by itself after the flush interval", async () => {
    const { backend, db, log } = await open();
    const writer = log.writer({ flush: { ms: 5000 } });
    await writer.write(entry("18:00:00"));
    backend.clock.advance(4999);
    assert.deepEqual(await messagesIn(db), []);
    backend.clock.advance(1);
    for (let turn = 0; turn < 100; turn++) await nextTurn();
    assert.deepEqual(await messagesIn(db), ["18:00:00"]);
    await writer.close();
  });

  it("retries a failed flush after the flush interval", async () => {
    const { backend, db } = await open();
    let appends = 0;
    const failing = withFaults(({ method }) =>
      method === "append" && appends++ === 0
        ? { kind: "refuse", status: 403, code: "Forbidden" }
        : undefined,
    );
    const down = connect({ ...backend, ...intercept(backend, failing), onEvent: () => undefined });
    const writer = down.open(Requests).writer({ flush: { records: 1 } });
    await writer.write(entry("18:00:00"));
    for (const [ms, found] of [
      [0, []],
      [4999, []],
      [1, ["18:00:00"]],
    ] as const) {
      backend.clock.advance(ms);
      for (let turn = 0; turn < 100; turn++) await nextTurn();
      assert.deepEqual(await messagesIn(db), found);
    }
    await writer.close();
  });

  it("keeps unstored records for the next flush, and refuses more above its high-water mark", async () => {
    const { backend, db } = await open();
    let isDown = true;
    const failing = withFaults(({ method }) =>
      isDown && method === "append"
        ? { kind: "refuse", status: 403, code: "Forbidden" }
        : undefined,
    );
    const events: string[] = [];
    const onEvent = ({ kind }: { kind: string }) => events.push(kind);
    const down = connect({ ...backend, ...intercept(backend, failing), onEvent });
    const writer = down.open(Requests).writer({ highWaterBytes: 60, flush: { records: 1 } });
    await writer.write(entry("18:00:00", "one"));
    await writer.write(entry("18:00:01", "two"));
    await assert.rejects(writer.flush(), { code: "Forbidden" });
    await assert.rejects(async () => {
      for (let i = 0; i < 3; i++) await writer.write(entry("18:00:02", `refused ${i}`));
    });
    assert.ok(events.includes("background failure"));
    isDown = false;
    await writer.close();
    const stored = await messagesIn(db);
    assert.deepEqual(stored.slice(0, 2), ["one", "two"]);
    assert.equal(new Set(stored).size, stored.length);
  });

  it("refuses records and intervals without valid dates", async () => {
    const { db } = await open();
    const isRefused = (error: unknown) => isTableError(error, "validation-failed");
    const writer = db.open(Requests).writer();
    for (const at of [undefined, "2014-07-31T18:00:00Z", 5, new Date(Number.NaN)] as Date[]) {
      await assert.rejects(writer.write({ ...entry("18:00:00"), at }), isRefused);
    }
    await assert.rejects(writer.write(undefined as never), isRefused);
    const from = new Date(0);
    for (const query of [{}, { from }, { to: from }, { from, to: new Date(Number.NaN) }]) {
      await assert.rejects(async () => {
        for await (const _ of db.open(Requests).read(query as never)) assert.fail("a record");
      }, isRefused);
    }
  });

  it("leaves out lines that are not records, and reports them", async () => {
    const { backend, db } = await open();
    await writeAll(db, [entry("18:00:00")]);
    const foreign = new TextEncoder().encode("no record\n2014-07-31T18:00:01.000Z;info;ok");
    await backend.blobs.put("logs", "queue/2014/07/31/1800/note.txt", foreign);
    const unreadable: string[] = [];
    const onUnreadable = (line: string) => unreadable.push(line);
    const found: string[] = [];
    for await (const { message } of db.open(Requests).read({ ...WHOLE, onUnreadable }))
      found.push(message);
    assert.deepEqual([found, unreadable], [["18:00:00", "ok"], ["no record"]]);
  });

  it("returns exactly what a filter over all records returns, for any writers and intervals", async () => {
    const seconds = fc.integer({ min: 0, max: 4 * 3600 });
    const written = fc.array(fc.record({ seconds, writer: fc.nat(1) }), { maxLength: 40 });
    const start = at("22:00:00").getTime();
    await fc.assert(
      fc.asyncProperty(
        written,
        seconds,
        seconds,
        fc.integer({ min: 1, max: 4 }),
        async (all, from, to, blocks) => {
          const { db, log } = await open();
          const flush = { records: 3 };
          const writers = [0, 1].map(() => log.writer({ flush, file: { blocks } }));
          const entries = all.map(({ seconds: second, writer }, i) => {
            return { writer, at: new Date(start + second * 1000), level: "info", message: `${i}` };
          });
          for (const { writer, ...one } of entries) await writers[writer]!.write(one);
          await writers[0]!.close();
          // The second one crashed, with everything stored.
          await writers[1]!.flush();
          const query = { from: new Date(start + from * 1000), to: new Date(start + to * 1000) };
          const expected = entries.filter((one) => one.at >= query.from && one.at < query.to);
          assert.deepEqual(
            (await messagesIn(db, query)).sort(),
            expected.map(({ message }) => message).sort(),
          );
        },
      ),
      histories(200),
    );
  });

  it("returns the records of several writers in time order if each writer writes in time order", async () => {
    const { db } = await open();
    const second = (i: number) => entry(`18:00:${String(i).padStart(2, "0")}`, `${i}`);
    const records = Array.from({ length: 60 }, (_, i) => second(i));
    for (const share of [0, 1, 2]) {
      const mine = records.filter((_, i) => i % 3 === share);
      await writeAll(db, mine, { ...EACH, file: { blocks: 4 } });
    }
    const found = await messagesIn(db);
    assert.deepEqual(
      found,
      records.map(({ message }) => message),
    );
  });
});

const HOUR = { from: at("18:00:00"), to: at("19:00:00") };
const RECORDS = ["18:00:00", "18:30:00", "19:00:00", "18:59:59", "19:00:01"].map((time) =>
  entry(time),
);

/** A writer that ignores errors; every acknowledged record is stored. */
function acknowledging(stored: Set<string>, name = "") {
  return async (db: Database) => {
    const writer = db.open(Requests).writer({ ...EACH, file: { blocks: 2 } });
    for (const { message, ...one } of RECORDS) {
      await writer.write({ ...one, message: name + message });
      stored.add(name + message);
    }
    await writer.close();
  };
}

async function checkStored(db: Database, stored: ReadonlySet<string>) {
  const found = await messagesIn(db);
  assert.equal(new Set(found).size, found.length, `twice: ${found}`);
  for (const message of stored) assert.ok(found.includes(message), `lost: ${message}`);
}

/** A wrong protocol: it appends wherever the file currently ends. */
const unconditional = ({ blobs }: Pick<Memory, "blobs">): Layer => {
  return async ({ method, args }, send) => {
    if (method !== "append") return send();
    const [container, name, block] = args as Parameters<typeof blobs.append>;
    const length = (await blobs.get(container, name))?.length ?? 0;
    return blobs.append(container, name, block, length);
  };
};

describe("the guarantees of a log", () => {
  it("hold at every crash of the writer: no stored record is lost or duplicated", async () => {
    const stored = new Set<string>();
    const crashes = await crashEverywhere(acknowledging(stored), {
      before: async () => stored.clear(),
      check: (db) => checkStored(db, stored),
    });
    assert.ok(crashes > 20);
  });

  it("hold when the answer to any request is lost", async () => {
    let stored = new Set<string>();
    const lost = await loseEveryAnswer(
      async (db) => {
        stored = new Set();
        await acknowledging(stored)(db);
      },
      {
        before: async () => undefined,
        check: async (db) => {
          await checkStored(db, stored);
          assert.equal(stored.size, RECORDS.length);
        },
      },
    );
    assert.ok(lost > 10);
  });

  it("would break if writers appended without a position: records are duplicated (the check notices)", async () => {
    const backend = memory();
    const faults = withFaults(({ method }, count) =>
      method === "append" && count % 3 === 0 ? { kind: "lose answer" } : undefined,
    );
    const ports = intercept(intercept(backend, unconditional(backend)), faults);
    const stored = new Set<string>();
    await acknowledging(stored)(connect({ ...backend, ...ports }));
    await assert.rejects(checkStored(connect(backend), stored), /twice/);
  });

  it("hold for concurrent writers that crash, in random schedules", async () => {
    let stored = new Set<string>();
    await interleave({
      clients: {
        one: (db) => acknowledging(stored, "one ")(db),
        two: (db) => acknowledging(stored, "two ")(db),
        three: (db) => acknowledging(stored, "three ")(db),
      },
      before: async () => {
        stored = new Set();
      },
      check: (db) => checkStored(db, stored),
      crashShare: 0.02,
      runs: schedules(300),
    });
  });
});
