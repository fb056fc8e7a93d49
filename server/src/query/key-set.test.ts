import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  ALL_KEYS,
  inEveryPartition,
  KeyAlgebra,
  type KeySet,
  keysBefore,
  keysFrom,
  NO_KEYS,
  partitionsWhere,
  rowsWhere,
} from "./key-set.ts";

describe("partitionsWhere", () => {
  it("splits the keys where the comparison starts and stops holding", () => {
    check(partitionsWhere("eq", "a"), "a:all a\\0:none");
    check(partitionsWhere("ne", "a"), ":all a:none a\\0:all");
    check(partitionsWhere("lt", "a"), ":all a:none");
    check(partitionsWhere("le", "a"), ":all a\\0:none");
    check(partitionsWhere("gt", "a"), "a\\0:all");
    check(partitionsWhere("ge", "a"), "a:all");
  });

  it("treats the empty key as the first", () => {
    check(partitionsWhere("eq", ""), ":all \\0:none");
    check(partitionsWhere("ne", ""), "\\0:all");
    check(partitionsWhere("lt", ""), "");
    check(partitionsWhere("ge", ""), ":all");
    assert.equal(partitionsWhere("lt", ""), NO_KEYS);
  });
});

describe("keysFrom and keysBefore", () => {
  it("split all keys at a position", () => {
    check(keysFrom({ partitionKey: "a", rowKey: "x" }), "a:x.. a\\0:all");
    check(keysBefore({ partitionKey: "a", rowKey: "x" }), ":all a:..x a\\0:none");
    check(keysFrom({ partitionKey: "a", rowKey: "" }), "a:all");
    check(keysBefore({ partitionKey: "", rowKey: "" }), "");
  });
});

describe("KeyAlgebra", () => {
  const algebra = new KeyAlgebra(1000);
  const a = partitionsWhere("eq", "a");
  const x = inEveryPartition(rowsWhere("eq", "x"));
  const y = inEveryPartition(rowsWhere("ge", "y"));

  it("computes unions and intersections over partitions and rows together", () => {
    check(algebra.intersection([a, x]), "a:x..x\\0 a\\0:none");
    check(algebra.union([a, x]), ":x..x\\0 a:all a\\0:x..x\\0");
    check(algebra.union([x, y]), ":x..x\\0,y..");
    check(algebra.intersection([x, y]), "");
    check(algebra.intersection([algebra.union([x, y]), a]), "a:x..x\\0,y.. a\\0:none");
  });

  it("joins adjacent ranges of rows", () => {
    check(
      algebra.union([
        inEveryPartition(rowsWhere("lt", "x")),
        inEveryPartition(rowsWhere("ge", "x")),
      ]),
      ":all",
    );
  });

  it("gives no keys for an empty union and all keys for an empty intersection", () => {
    assert.equal(algebra.union([]), NO_KEYS);
    assert.equal(algebra.intersection([]), ALL_KEYS);
  });

  it("tells whether a set is within another, and whether two are disjoint", () => {
    const both = algebra.intersection([a, x]);
    assert.ok(algebra.isWithin(both, a) && algebra.isWithin(both, x) && algebra.isWithin(x, x));
    assert.ok(!algebra.isWithin(a, x) && !algebra.isWithin(x, a));
    assert.ok(algebra.areDisjoint(x, y) && !algebra.areDisjoint(x, a));
    assert.ok(algebra.isWithin(NO_KEYS, a) && algebra.areDisjoint(NO_KEYS, ALL_KEYS));
  });

  it("returns a superset and reports exhausted when its budget is used up", () => {
    const tired = new KeyAlgebra(3);
    assert.equal(tired.exhausted, false);
    check(tired.union([x, y]), ":x..x\\0,y..");
    check(tired.union([y, x]), ":all");
    assert.equal(tired.exhausted, true);
    check(tired.intersection([x, y]), ":x..x\\0");
    assert.equal(tired.isWithin(x, x), false);
    assert.equal(tired.areDisjoint(x, y), false);
  });
});

/** `expected` lists the segments as `from:rows`; a first segment without rows is omitted. */
function check(keys: KeySet, expected: string): void {
  const segments = keys.map(({ from, rows }) => {
    if (rows.length === 0) return `${from}:none`;
    if (rows.length === 1 && rows[0] === "") return `${from}:all`;
    const intervals = [];
    for (let i = 0; i < rows.length; i += 2) intervals.push(`${rows[i]}..${rows[i + 1] ?? ""}`);
    return `${from}:${intervals.join(",")}`;
  });
  if (segments[0] === ":none") segments.shift();
  assert.equal(segments.join(" ").replaceAll("\0", "\\0"), expected);
}
