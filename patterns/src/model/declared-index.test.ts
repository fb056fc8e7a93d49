import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { blobList } from "../blob-list.ts";
import { entity, f, k } from "../index.ts";
import type { Segment } from "../keys/key.ts";
import { listIndex } from "../list-index.ts";
import { missing } from "../missing.ts";
import { remoteIndex } from "../remote-index.ts";
import { remoteList } from "../remote-list.ts";
import { siblingIndex } from "../sibling-index.ts";
import { definitionHash } from "./declared-index.ts";
import type { Index } from "./follower.ts";

const by = (segment: Segment) => siblingIndex({ row: [k.lit("x"), segment, k.uint("id", 6)] });

/** Control rows hold these hashes: changing one turns every index that is already built into another one. */
const HASHES: Readonly<Record<string, readonly [index: Index, hash: string]>> = {
  str: [by(k.str("text")), "9ae4a56235f9"],
  overflow: [by(k.str("text", { max: 100, overflow: "hash" })), "d0164fecb113"],
  strCI: [by(k.strCI("text")), "b172fb444fdb"],
  uint: [by(k.uint("count", 6)), "5fe50921a9a8"],
  uintDesc: [by(k.uintDesc("count", 6)), "9f7c93532488"],
  "uintDesc of 15 digits": [by(k.uintDesc("count", 15)), "2faa525b6c1c"],
  int: [by(k.int("count", 6)), "5fe50921a9a8"],
  "int of 15 digits": [by(k.int("count", 15)), "bdfd16780048"],
  int64: [by(k.int64("big")), "bd720430b0ae"],
  double: [by(k.double("real")), "c22cf3c5eea6"],
  date: [by(k.date("at")), "efcd69701813"],
  dateDesc: [by(k.dateDesc("at")), "18c11c072da4"],
  isoDate: [by(k.isoDate("at", "month", "month")), "dde71ab9ee06"],
  guid: [by(k.guid("guid")), "993da6c255f8"],
  ulid: [by(k.ulid("text")), "b1160e542fb6"],
  bool: [by(k.bool("isOpen")), "3ddc267e5777"],
  enumOf: [by(k.enumOf("role", ["staff", "lead"])), "c94d2fa158ba"],
  missing: [by(missing("last", k.dateDesc("at"))), "03b2a68b5ed5"],
  "a unique sibling index": [
    siblingIndex({ row: [k.lit("x"), k.str("text")], unique: true, copy: ["count"] }),
    "32802276964b",
  ],
  "a remote index": [
    remoteIndex({
      table: "Other",
      partition: [k.hash("text", 64)],
      row: k.ordered(k.str("text"), k.str("dept"), k.uint("id", 6)),
      copy: "keys",
      mode: "inline",
      when: ({ count }) => count !== 0,
    }),
    "5e726607b34c",
  ],
  "a list index": [
    listIndex({ row: [k.lit("x"), k.str("text")], property: "IDs" }),
    "12788d2aa50d",
  ],
  "a remote list": [
    remoteList({ table: "Lists", partition: [k.str("text")], row: [k.lit("x")], property: "IDs" }),
    "f8ebef7ae4ed",
  ],
  "a list in blobs": [blobList({ container: "lists", name: [k.str("text")] }), "6926972825f4"],
};

describe("the hash of a definition", () => {
  it("is the same in every time zone", () => {
    const { TZ } = process.env;
    const hashes = ["UTC", "Asia/Tokyo", "America/New_York"].map((zone) => {
      process.env.TZ = zone;
      return hashOf(
        remoteIndex({
          table: "Other",
          partition: [k.hash("text", 64)],
          row: [k.str("text")],
          unique: true,
        }),
      );
    });
    if (TZ === undefined) delete process.env.TZ;
    else process.env.TZ = TZ;
    assert.deepEqual(hashes, Array(3).fill(hashes[0]));
  });

  it("is the same for uint and int of one width, whose entries are the same", () => {
    assert.equal(HASHES.int?.[1], HASHES.uint?.[1]);
    const place = { escapeUnderscore: false };
    for (const count of [0, 1, 12_345, 999_999]) {
      assert.equal(k.int("count", 6).encode(count, place), k.uint("count", 6).encode(count, place));
    }
  });

  it("has not changed since indexes were registered under it", () => {
    const hashes = Object.entries(HASHES).map(([name, [index]]) => [name, hashOf(index)]);
    const expected = Object.entries(HASHES).map(([name, [, hash]]) => [name, hash]);
    assert.deepEqual(hashes, expected);
  });
});

function hashOf(index: Index): string {
  const Thing = entity("Thing", {
    version: 1,
    fields: {
      dept: f.string(),
      id: f.int32(),
      text: f.string(),
      count: f.int32(),
      big: f.int64(),
      real: f.double(),
      at: f.date(),
      guid: f.guid(),
      isOpen: f.bool(),
      role: f.oneOf("staff", "lead"),
    },
    key: { partition: [k.str("dept")], row: [k.lit("id"), k.uint("id", 6)] },
    indexes: { index },
  });
  return definitionHash(Thing, "index");
}
