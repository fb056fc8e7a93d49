import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { connect, entity, f, isTableError, k } from "./index.ts";
import { smallPartitions } from "./small-partitions.ts";
import { memory } from "./testing/memory.ts";
import { histories } from "./testing/test-histories.ts";

const Room = entity("Room", {
  version: 1,
  fields: {
    building: f.string(),
    number: f.int32(),
    seats: f.int32(),
    area: f.double().optional(),
    name: f.string().as("RoomName"),
  },
  key: { partition: [k.str("building")], row: [k.lit("room"), k.uint("number", 3)] },
});
const Rooms = smallPartitions(Room, { maxRows: 20 });
const room = (number: number) => ({
  building: "A",
  number,
  seats: number % 5,
  name: `R${number}`,
  ...(number % 2 === 0 && { area: number }),
});

async function open(count: number) {
  const db = connect(memory());
  await db.createTables(Rooms);
  for (let number = 0; number < count; number++) await db.open(Room).insert(room(number));
  return { db, rooms: db.open(Rooms) };
}

describe("a small partition", () => {
  it("is scanned without a permit, in one request", async () => {
    const { db } = await open(20);
    const { requests, entities, result } = await db.metered((metered) =>
      metered
        .open(Rooms)
        .range({ building: "A" })
        .where(({ seats }) => seats.eq(3))
        .where(({ name }) => name.ne("R8"))
        .select("name")
        .all(),
    );
    assert.deepEqual([requests, entities], [1, 20]);
    assert.deepEqual(
      result.map(({ etag: _etag, ...row }) => row),
      [{ name: "R3" }, { name: "R13" }, { name: "R18" }],
    );
    const query = db.open(Rooms).range({ building: "A" });
    const found = await query.where(({ seats }) => seats.gt(3)).first();
    assert.equal(found?.number, 4);
    assert.equal(await query.where(({ seats }) => seats.gt(9)).first(), undefined);
  });

  it("is refused once it has more rows than declared, except for smaller ranges", async () => {
    const { rooms } = await open(21);
    const refused = (read: Promise<unknown>) =>
      assert.rejects(read, (error) => isTableError(error, "scan-not-permitted"));
    const all = rooms.range({ building: "A" });
    await refused(all.all());
    await refused(all.where(({ seats }) => seats.eq(3)).all());
    await refused(all.where(({ seats }) => seats.eq(3)).first());
    const most = rooms.range({ building: "A", number: { gte: 1 } });
    assert.equal((await most.where(({ seats }) => seats.eq(3)).all()).length, 4);
  });

  it("returns what the service would return for a condition", async () => {
    const comparison = fc.constantFrom("eq", "ne", "gt", "gte", "lt", "lte");
    const { db, rooms } = await open(20);
    const permit = { allow: "partition-scan", because: "to compare" } as const;
    const numbers = (found: readonly { readonly number: number }[]) =>
      found.map(({ number }) => number);
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(comparison, fc.integer({ min: -1, max: 5 })),
        fc.tuple(comparison, fc.integer({ min: -1, max: 20 })),
        fc.constantFrom("and", "or", "and not"),
        async ([seatsBy, seats], [areaBy, area], how) => {
          type Room = Parameters<Parameters<ReturnType<typeof rooms.range>["where"]>[0]>[0];
          const condition = (columns: Room) => {
            const a = columns.seats[seatsBy](seats);
            const b = columns.area[areaBy](area);
            return how === "or" ? a.or(b) : a.and(how === "and" ? b : b.not());
          };
          const query = { building: "A", number: { gte: 3 } };
          assert.deepEqual(
            numbers(await rooms.range(query).where(condition).all()),
            numbers(await db.open(Room).range(query).where(condition).all(permit)),
          );
        },
      ),
      histories(300),
    );
  });

  it("explains itself as a range", async () => {
    const { rooms } = await open(0);
    const query = rooms.range({ building: "A", number: { gte: 3 } });
    assert.deepEqual(query.where(({ seats }) => seats.eq(1)).explain(), {
      plan: "range",
      table: "Room",
      filter: "PartitionKey eq 'A' and RowKey ge 'room_003' and RowKey lt 'room`'",
      requests: "1",
      entities: "rows, at most 20",
      notes: ["the condition is applied here"],
    });
  });

  it("refuses conditions on keys, and a maxRows outside 1 to 999", async () => {
    const { rooms } = await open(1);
    assert.throws(
      () => rooms.range({ building: "A" }).where(({ number }) => number.eq(1)),
      (error) => isTableError(error, "validation-failed"),
    );
    for (const maxRows of [0, 1.5, 1000]) {
      assert.throws(
        () => smallPartitions(Room, { maxRows }),
        (error) => isTableError(error, "invalid-definition"),
      );
    }
    smallPartitions(Room, { maxRows: 999 });
  });
});
