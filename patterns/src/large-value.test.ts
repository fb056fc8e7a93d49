import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { connect, type Database, entity, f, isTableError, k } from "./index.ts";
import { inlineValueFields, largeValueFields, largeValues } from "./large-value.ts";
import { PortError } from "./ports/port-error.ts";
import type { Layer } from "./store/layer.ts";
import { crashEverywhere } from "./testing/crash-everywhere.ts";
import { intercept } from "./testing/intercept.ts";
import { interleave } from "./testing/interleave.ts";
import { memory } from "./testing/memory.ts";
import { schedules } from "./testing/test-histories.ts";
import { loseEveryAnswer } from "./testing/test-lose-every-answer.ts";

const key = { partition: [k.str("dept")], row: [k.uint("id", 6)] } as const;
const Employee = entity("Employee", {
  version: 1,
  fields: { dept: f.string(), id: f.int32(), ...largeValueFields("photo") },
  key,
});
const Photos = largeValues(Employee, { name: "photo", container: "photos" });
const ann = { dept: "Sales", id: 223 };
/** A name in our form that no entity holds. */
const orphan = "Employee/Sales/000223/photo/01KDVDJG00J5M7Z3W7X2Y8H4QC";
const bytes = (value: number) => new Uint8Array(100_000).fill(value);

const before = async (db: Database) => {
  await db.createTables(Employee);
  await db.blobs!.createContainer("photos");
  await db.open(Employee).insert(ann);
  await db.open(Photos).put(ann, bytes(1), "image/png");
};

async function open() {
  const backend = memory();
  const db = connect(backend);
  await before(db);
  return { backend, db, photos: db.open(Photos) };
}

const blobNames = async (db: Database) =>
  (await db.blobs!.list("photos", {})).blobs.map(({ name }) => name);
const put = (value: number) => (db: Database) => db.open(Photos).put(ann, bytes(value));
const remove = (db: Database) => db.open(Photos).deleteEntity(ann);

/** Every pointer leads to its value, and after a collection nothing else is left. */
const isTidy = async (db: Database) => {
  const value = await db.open(Photos).get(ann);
  if (value) assert.ok(value.body.every((byte) => byte === value.body[0]));
  await db.open(Photos).collect(0);
  assert.equal((await blobNames(db)).length, value ? 1 : 0);
};

const streamed = async (db: Database) => {
  const pieces: Uint8Array[] = [];
  for await (const piece of db.open(Photos).stream(ann)) pieces.push(piece);
  return pieces;
};

describe("large values", () => {
  it("are streamed in pieces of 4 MiB, one request each after the one for the entity", async () => {
    const { db, photos } = await open();
    const mib = 1024 * 1024;
    for (const [length, pieces] of [
      [0, []],
      [1, [1]],
      [4 * mib, [4 * mib]],
      [4 * mib + 1, [4 * mib, 1]],
      [9 * mib, [4 * mib, 4 * mib, mib]],
    ] as const) {
      const body = new Uint8Array(length).map((_, i) => i % 251);
      await photos.put(ann, body);
      const { result, requests } = await db.metered((metered) => streamed(metered));
      assert.deepEqual(
        result.map((piece) => piece.length),
        pieces,
      );
      assert.ok(Buffer.concat(result).equals(body));
      assert.equal(requests, 1 + Math.max(1, pieces.length));
    }
    await photos.remove(ann);
    assert.deepEqual(await streamed(db), []);
  });

  it("are streamed from the blob that the entity names now, and fail if they are replaced midway", async () => {
    const { backend, db, photos } = await open();
    await photos.put(ann, new Uint8Array(5_000_000).fill(2));
    const stream = db.open(Photos).stream(ann)[Symbol.asyncIterator]();
    assert.equal((await stream.next()).value?.length, 4_194_304);
    await photos.put(ann, bytes(3));
    await assert.rejects(stream.next(), { code: "not-found" });
    assert.deepEqual(await streamed(db), [bytes(3)]);
    let replaced = false;
    const late = connect({
      ...backend,
      ...intercept(backend, async ({ method, port }, send) => {
        if (port !== "blobs" || method !== "get" || replaced) return send();
        replaced = true;
        await photos.put(ann, bytes(4));
        return send();
      }),
    });
    assert.deepEqual(await streamed(late), [bytes(4)]);
  });

  it("are put from a stream block by block, and readers see them only once it ends", async () => {
    const { backend, db, photos } = await open();
    const [old] = await blobNames(db);
    const pulled: string[] = [];
    async function* chunks() {
      for (let i = 0; i < 11; i++) {
        pulled.push(`${staged} blocks, ${(await blobNames(db)).length} blobs`);
        yield new Uint8Array(1_000_000).fill(i);
      }
    }
    let staged = 0;
    const counting = intercept(backend, (call, send) => {
      if (call.method === "stageBlock") staged++;
      return send();
    });
    const watched = connect({ ...backend, ...counting });
    const { requests } = await watched.metered((metered) =>
      metered.open(Photos).put(ann, chunks(), "image/tiff"),
    );
    // The entity twice, 3 blocks, their list, and the old blob.
    assert.equal(requests, 7);
    // The stream is never read further than one block and one chunk.
    assert.deepEqual(pulled.slice(3, 7), [
      "0 blocks, 1 blobs",
      "0 blocks, 1 blobs",
      "1 blocks, 1 blobs",
      "1 blocks, 1 blobs",
    ]);
    const found = await photos.get(ann);
    assert.deepEqual([found?.body.length, found?.contentType], [11_000_000, "image/tiff"]);
    assert.deepEqual([found?.body[999_999], found?.body[10_000_000]], [0, 10]);
    assert.equal((await streamed(db)).length, 3);
    const names = await blobNames(db);
    assert.equal(names.length, 1);
    assert.notEqual(names[0], old);
  });

  it("are put from streams of any length", async () => {
    const { db, photos } = await open();
    const block = 4 * 1024 * 1024;
    for (const length of [0, 1, block - 1, block, block + 1, 2 * block]) {
      const body = new Uint8Array(length).map((_, i) => i % 251);
      async function* chunks() {
        for (let at = 0; at < length; at += 1_234_567) yield body.subarray(at, at + 1_234_567);
      }
      await photos.put(ann, chunks());
      assert.ok(Buffer.concat(await streamed(db)).equals(body), `${length}`);
      assert.equal((await blobNames(db)).length, 1);
    }
  });

  it("stay unchanged if a stream fails, and leave no blobs or blocks", async () => {
    const { backend, db, photos } = await open();
    async function* failing() {
      yield new Uint8Array(9_000_000);
      throw new Error("the disk is gone");
    }
    await assert.rejects(photos.put(ann, failing()), /the disk is gone/);
    const ben = { dept: "Sales", id: 1 };
    async function* whole() {
      yield new Uint8Array(9_000_000);
    }
    await assert.rejects(photos.put(ben, whole()), { code: "not-found" });
    assert.deepEqual((await photos.get(ann))?.body, bytes(1));
    assert.equal((await blobNames(db)).length, 1);
    assert.equal(backend.blobs.stagedCount, 0);
  });

  it("are sent one block at a time, and not put if a block is refused", async () => {
    const { backend, photos } = await open();
    async function* film() {
      for (let i = 0; i < 3; i++) yield new Uint8Array(5_000_000).fill(i);
    }
    let underWay = 0;
    let blocks = 0;
    const oneByOne = (refused: number): Layer => {
      blocks = 0;
      return async ({ method }, send) => {
        if (method !== "stageBlock") return send();
        assert.equal(++underWay, 1);
        await nextTurn();
        underWay--;
        if (++blocks === refused) throw new PortError("no", { status: 403, code: "Forbidden" });
        return send();
      };
    };
    const putWith = (layer: Layer) =>
      connect({ ...backend, ...intercept(backend, layer) })
        .open(Photos)
        .put(ann, film());
    await assert.rejects(putWith(oneByOne(2)), PortError);
    assert.deepEqual((await photos.get(ann))?.body, bytes(1));
    await putWith(oneByOne(0));
    assert.equal((await photos.get(ann))?.body.length, 15_000_000);
  });

  it("are not reported as absent if the service refuses to remove them", async () => {
    const { backend, photos } = await open();
    const refuses: Layer = async ({ method }, send) => {
      if (method === "commit") throw new PortError("no", { status: 403, code: "Forbidden" });
      return send();
    };
    const refused = connect({ ...backend, ...intercept(backend, refuses) }).open(Photos);
    await assert.rejects(refused.remove(ann), PortError);
    await assert.rejects(refused.deleteEntity(ann), PortError);
    assert.deepEqual((await photos.get(ann))?.body, bytes(1));
  });

  it("are stored in the entity up to 48 KiB if that is declared", async () => {
    const { backend } = await open();
    const db = connect(backend);
    const Note = entity("Note", {
      version: 1,
      fields: { dept: f.string(), id: f.int32(), ...inlineValueFields("body") },
      key,
    });
    const Bodies = largeValues(Note, { name: "body", container: "photos" });
    await db.createTables(Note);
    await db.open(Note).insert(ann);
    const before = (await blobNames(db)).length;
    const cost = async (work: (bodies: ReturnType<typeof Bodies.open>) => Promise<unknown>) =>
      (await db.metered((metered) => work(metered.open(Bodies)))).requests;
    const limit = 48 * 1024;
    async function* oneByOne(body: Uint8Array) {
      yield* [body.subarray(0, 7), body.subarray(7)];
    }
    for (const [length, put, get, blobs] of [
      [limit - 1, 2, 1, 0],
      [limit, 2, 1, 0],
      [limit + 1, 3, 2, 1],
      [limit + 2, 4, 2, 1],
      [0, 3, 1, 0],
    ] as const) {
      const body = new Uint8Array(length).fill(7);
      const source = length % 2 ? body : oneByOne(body);
      assert.equal(await cost((bodies) => bodies.put(ann, source, "text/plain")), put);
      let found: unknown;
      const read = async (bodies: ReturnType<typeof Bodies.open>) => {
        found = await bodies.get(ann);
      };
      assert.equal(await cost(read), get);
      assert.deepEqual(found, { body, contentType: "text/plain" });
      const pieces: Uint8Array[] = [];
      for await (const piece of db.open(Bodies).stream(ann)) pieces.push(piece);
      assert.ok(Buffer.concat(pieces).equals(body));
      const stored = await db.tables.get("Note", Note.rows.key(ann, db.profile));
      assert.equal("body_inline" in stored!.properties, length <= limit);
      assert.equal((await blobNames(db)).length, before + blobs);
    }
    assert.equal(await db.open(Bodies).remove(ann), true);
    assert.equal(await db.open(Bodies).remove(ann), false);
    assert.equal(await db.open(Bodies).get(ann), undefined);
  });

  it("fail to stream if their blob no longer has the stored length", async () => {
    const { db, photos } = await open();
    for (const length of [4_000_000, 4_194_304, 6_000_000]) {
      await photos.put(ann, new Uint8Array(5_000_000));
      const [name] = await blobNames(db);
      await db.blobs!.put("photos", name!, new Uint8Array(length));
      await assert.rejects(streamed(db), { code: "validation-failed" }, `${length}`);
    }
  });

  it("get a new blob name with each put, with length, hash and type on the entity", async () => {
    const { backend, db, photos } = await open();
    const stored = await backend.tables.get("Employee", {
      partitionKey: "Sales",
      rowKey: "000223",
    });
    const { photo, photo_len, photo_sha256, photo_type } = stored!.properties;
    assert.match(String(photo?.value), /^Employee\/Sales\/000223\/photo\/[0-9A-Z]{26}$/);
    assert.deepEqual(photo_len, { type: "Int32", value: 100_000 });
    assert.match(String(photo_sha256?.value), /^[0-9a-f]{64}$/);
    assert.equal(photo_type?.value, "image/png");
    assert.deepEqual(await photos.get(ann), { body: bytes(1), contentType: "image/png" });
    await photos.put(ann, bytes(2));
    assert.deepEqual((await photos.get(ann))?.body, bytes(2));
    assert.equal((await blobNames(db)).length, 1);
    assert.notEqual((await blobNames(db))[0], photo?.value);
  });

  it("must be bytes or a stream of bytes", async () => {
    const { photos } = await open();
    for (const other of [undefined, null, 5, "text", [1], new ArrayBuffer(1)] as never[]) {
      await assert.rejects(photos.put(ann, other), (error) =>
        isTableError(error, "validation-failed"),
      );
    }
  });

  it("are deleted with their entity, or before it", async () => {
    const { db, photos } = await open();
    assert.equal(await photos.remove(ann), true);
    assert.equal(await photos.remove(ann), false);
    assert.equal(await photos.remove({ ...ann, id: 999 }), false);
    assert.equal(await photos.get(ann), undefined);
    assert.ok(await db.open(Employee).get(ann));
    await photos.put(ann, bytes(3));
    assert.equal(await photos.deleteEntity(ann), true);
    assert.equal(await photos.deleteEntity(ann), false);
    assert.deepEqual(await blobNames(db), []);
    await assert.rejects(photos.put(ann, bytes(4)), (error) => isTableError(error, "not-found"));
    assert.deepEqual(await blobNames(db), []);
  });

  it("report a blob that is missing or has changed", async () => {
    const { db, photos } = await open();
    const [name] = await blobNames(db);
    await db.blobs!.put("photos", name!, bytes(9));
    await assert.rejects(photos.get(ann), (error) => isTableError(error, "validation-failed"));
    await assert.rejects(streamed(db), (error) => isTableError(error, "validation-failed"));
    await db.blobs!.delete("photos", name!);
    await assert.rejects(photos.get(ann), (error) => isTableError(error, "not-found"));
  });

  it("cost the requests that the manual states", async () => {
    const { db } = await open();
    const cost = async (work: (db: Database) => Promise<unknown>) =>
      (await db.metered(work)).requests;
    assert.equal(await cost((db) => db.open(Photos).get(ann)), 2);
    assert.equal(await cost(put(2)), 4);
    assert.equal(await cost(remove), 3);
  });

  it("lose only old, orphaned blobs to a collection", async () => {
    const { backend, db, photos } = await open();
    await db.blobs!.put("photos", orphan, bytes(7));
    await db.blobs!.put("photos", "Employee/elsewhere", bytes(7));
    assert.equal(await photos.collect(), 0);
    backend.clock.advance(25 * 3_600_000);
    assert.equal(await photos.collect(), 1);
    assert.equal((await blobNames(db)).length, 2);
  });

  it("keep a blob that is rewritten just before its collection, and do not count one that is already deleted", async () => {
    const { backend, db, photos } = await open();
    const meanwhile = async (what: () => Promise<unknown>) => {
      await db.blobs!.put("photos", orphan, bytes(7));
      backend.clock.advance(25 * 3_600_000);
      const { blobs } = intercept(backend, async ({ method }, send) => {
        if (method === "delete") await what();
        return send();
      });
      const collected = await connect({ ...backend, blobs })
        .open(Photos)
        .collect();
      return [collected, (await blobNames(db)).includes(orphan)];
    };
    const again = () => backend.blobs.put("photos", orphan, bytes(8));
    assert.deepEqual(await meanwhile(again), [0, true]);
    assert.deepEqual(await meanwhile(() => backend.blobs.delete("photos", orphan)), [0, false]);
    assert.deepEqual((await photos.get(ann))?.body, bytes(1));
  });

  it("are not put by a writer that stalls until a collection may have deleted the new blob", async () => {
    const { backend, photos } = await open();
    const { clock } = backend;
    let isStill = false;
    const slow = connect({
      ...backend,
      ...intercept(backend, async ({ method }, send) => {
        const answer = await send();
        if (!isStill || (method !== "put" && method !== "commitBlocks")) return answer;
        isStill = false;
        clock.advance(25 * 3_600_000);
        assert.equal(await photos.collect(), 1);
        return answer;
      }),
    });
    async function* film() {
      yield new Uint8Array(5_000_000);
      // However long this takes: a blob that does not exist yet cannot be collected.
      clock.advance(25 * 3_600_000);
    }
    for (const body of [bytes(2), film()]) {
      isStill = true;
      const { requests } = await slow.metered((metered) =>
        assert.rejects(metered.open(Photos).put(ann, body), (error: Error) => {
          assert.ok(isTableError(error, "contention-exhausted"));
          assert.deepEqual([error.key, error.attempts], ["000223", 1]);
          assert.match(error.message, /sent more than an hour ago.*\n {2}Remedy: put it again\.$/);
          return true;
        }),
      );
      // It sends the value, reads the entity, and deletes the blob if it still exists.
      assert.equal(requests, body instanceof Uint8Array ? 3 : 5);
      assert.deepEqual((await photos.get(ann))?.body, bytes(1));
    }
    await slow.open(Photos).put(ann, film());
    assert.equal((await photos.get(ann))?.body.length, 5_000_000);
  });

  it("are collected without touching blobs of other names", async () => {
    const { backend, db, photos } = await open();
    await photos.remove(ann);
    const others = [
      "Employee/%zz/000223/photo/x",
      "Employee/100%",
      "Employee/Sales/000223/photo/2014",
      `${orphan}/thumbnail`,
      `${orphan}0`,
      orphan.replace("Sales", "S%61les"),
      orphan.replace("photo/", "photo/of/"),
    ].sort();
    for (const name of others) await db.blobs!.put("photos", name, bytes(7));
    await db.blobs!.put("photos", orphan, bytes(7));
    backend.clock.advance(25 * 3_600_000);
    assert.equal(await photos.collect(), 1);
    assert.deepEqual((await blobNames(db)).sort(), others);
  });

  it("are refused if their blob name would exceed 1,024 characters, unless they fit in the entity", async () => {
    const { db, photos } = await open();
    const Inline = entity("Employee", {
      version: 1,
      fields: { dept: f.string(), id: f.int32(), ...inlineValueFields("photo") },
      key,
    });
    // Each "@" takes three characters, so with the rest the names have 1,024 and 1,025.
    const fits = { dept: "@".repeat(325), id: 1 };
    const tooLong = { dept: `${"@".repeat(325)}x`, id: 1 };
    for (const each of [fits, tooLong]) await db.open(Employee).insert(each);
    await photos.put(fits, bytes(5));
    assert.deepEqual((await blobNames(db)).map(({ length }) => length).sort(), [1024, 54]);
    async function* stream() {
      yield new Uint8Array(5_000_000);
    }
    for (const value of [bytes(5), stream()]) {
      await assert.rejects(photos.put(tooLong, value), (error) => {
        assert.ok(isTableError(error, "key-too-long"));
        assert.deepEqual([error.length, error.limit], [1025, 1024]);
        return true;
      });
    }
    const small = db.open(largeValues(Inline, { name: "photo", container: "photos" }));
    await small.put(tooLong, new Uint8Array(3));
    assert.equal((await small.get(tooLong))?.body.length, 3);
    assert.equal((await blobNames(db)).length, 2);
  });

  it("survive crashes, lost answers and any interleaving", async () => {
    async function* chunks() {
      for (let i = 0; i < 50; i++) yield bytes(2);
    }
    // All bytes equal, so that `isTidy` can check it.
    const stream = (db: Database) => db.open(Photos).put(ann, chunks());
    for (const operation of [put(2), stream, remove]) {
      await crashEverywhere(operation, { before, check: isTidy });
      await loseEveryAnswer(operation, { before, check: isTidy });
    }
    const clients = {
      put: put(2),
      another: put(3),
      // The blob that the entity names exists, or the entity names another by then.
      get: (db: Database) => db.open(Photos).get(ann),
      remove: (db: Database) => db.open(Photos).remove(ann),
    };
    await interleave({ before, clients, check: isTidy, crashShare: 0.02, runs: schedules(200) });
  });

  it("need their fields declared", () => {
    const Plain = entity("Plain", {
      version: 1,
      fields: { dept: f.string(), id: f.int32(), photo: f.string().optional() },
      key,
    });
    assert.throws(
      () => largeValues(Plain, { name: "photo", container: "photos" }),
      (error) => isTableError(error, "invalid-definition"),
    );
  });
});
