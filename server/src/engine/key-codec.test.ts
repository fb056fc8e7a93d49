import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { assertAbove, assertSameBytes, key } from "./conformance/steps.ts";
import type { Key } from "./engine.ts";
import {
  after,
  afterPartition,
  compareKeys,
  decodeId,
  decodeText,
  encodeId,
  encodeText,
  equalBytes,
  joinKey,
  KeySplitter,
  keyBytes,
  pairBytesMax,
  partitionPrefixRange,
  partitionRange,
  prefixEnd,
  sortPrefixRange,
  splitKey,
} from "./key-codec.ts";

/** Text with many characters at the edges of the encoding: ASCII, surrogate pairs and their neighbours. */
const text = fc.string({
  unit: fc.oneof(
    {
      weight: 4,
      arbitrary: fc.constantFrom("", "a", "b", "\0", "\u007f", "\u0080", "é", "\u07ff"),
    },
    {
      weight: 4,
      arbitrary: fc.constantFrom(
        "\u0800",
        "\ud7ff",
        "\ue000",
        "\uefff",
        "\uf000",
        "\ufffd",
        "\uffff",
      ),
    },
    { weight: 2, arbitrary: fc.constantFrom("\u{10000}", "😀", "\u{10ffff}") },
    { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 2 }) },
  ),
  maxLength: 12,
});

/** Bytes with many 00, 01, 02 and FF among them, and long runs of 00. */
const bytes = fc
  .array(
    fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom([0], [1], [2], [17], [255], [97]) },
      { weight: 1, arbitrary: fc.uint8Array({ maxLength: 3 }).map((some) => [...some]) },
      {
        weight: 1,
        arbitrary: fc.nat({ max: 40 }).map((length) => new Array<number>(length).fill(0)),
      },
    ),
    { maxLength: 10 },
  )
  .map((parts) => Uint8Array.from(parts.flat()));

const pair: fc.Arbitrary<Key> = fc.record({ partition: bytes, sort: bytes });

describe("the code of a text", () => {
  it("decodes to the same text", () => {
    fc.assert(fc.property(text, (each) => assert.equal(decodeText(encodeText(each)), each)));
  });

  it("sorts like UTF-16 code units", () => {
    fc.assert(
      fc.property(text, text, (a, b) => {
        assert.equal(
          sign(Buffer.compare(encodeText(a), encodeText(b))),
          sign(a < b ? -1 : +(a > b)),
        );
      }),
    );
  });

  it("sorts supplementary characters between U+D7FF and U+E000", () => {
    const sorted = ["\ud7ff", "\u{10000}", "\u{10ffff}", "\ue000", "\uffff"];
    const bySortedCode = sorted.toReversed().sort((a, b) => {
      return Buffer.compare(encodeText(a), encodeText(b));
    });
    assert.deepEqual(bySortedCode, sorted);
  });

  it("can be appended to a prefix and decoded from after it", () => {
    fc.assert(
      fc.property(bytes, text, (prefix, each) => {
        const code = encodeText(each, prefix);
        assertSameBytes(code.subarray(0, prefix.length), prefix);
        assert.equal(decodeText(code, prefix.length), each);
      }),
    );
  });

  it("contains a byte 00 only where the text has U+0000", () => {
    fc.assert(
      fc.property(text, (each) => assert.equal(encodeText(each).includes(0), each.includes("\0"))),
    );
  });

  it("takes at most 3 bytes per code unit, so two keys of 512 units plus 16 bytes always fit", () => {
    for (const widest of ["\u0800", "\uffff", "😀"]) {
      const code = encodeText(widest.repeat(512 / widest.length));
      assertAbove(pairBytesMax(4026) + 1, 2 * code.length + 16);
    }
  });

  it("does not exist for lone surrogates at either end", () => {
    for (const lone of ["\ud800", "a\udfff", "\udc00\ud800", "\ud800a", "\ufffd\ud83d"]) {
      assert.throws(() => encodeText(lone), RangeError);
    }
  });
});

describe("the code of an id", () => {
  const id = fc.oneof(fc.maxSafeNat(), fc.nat(70_000), fc.nat(300));

  it("decodes to the same id and its end", () => {
    fc.assert(
      fc.property(id, bytes, (each, rest) => {
        const code = encodeId(each);
        const longer = Uint8Array.from([7, ...code, ...rest]);
        assert.deepEqual(decodeId(longer, 1), { id: each, end: 1 + code.length });
      }),
    );
  });

  it("sorts like the ids and contains no byte 00", () => {
    fc.assert(
      fc.property(id, id, (a, b) => {
        assert.equal(sign(Buffer.compare(encodeId(a), encodeId(b))), sign(a - b));
        assert.equal(encodeId(a).includes(0), false);
      }),
    );
  });

  it("is short for small numbers", () => {
    const lengths = [0, 254, 255, 65_279, 65_280].map((each) => encodeId(each).length);
    assert.deepEqual(lengths, [2, 2, 3, 3, 4]);
  });

  it("exists for safe integers from 0 on only", () => {
    for (const wrong of [-1, 0.5, Number.NaN, 2 ** 53]) {
      assert.throws(() => encodeId(wrong), RangeError);
    }
    for (const wrong of [[], [0], [2, 1], [1, 0], [3, 1, 0, 1]]) {
      assert.throws(() => decodeId(Uint8Array.from(wrong)), RangeError);
    }
  });
});

describe("flat keys", () => {
  it("split into the same pair", () => {
    fc.assert(fc.property(pair, (each) => assertSameKey(splitKey(joinKey(each)), each)));
  });

  it("sort like pairs", () => {
    fc.assert(
      fc.property(pair, pair, (a, b) => {
        const flat = Buffer.compare(joinKey(a), joinKey(b));
        assert.equal(sign(flat), sign(compareKeys(a, b)));
      }),
    );
  });

  it("sort like pairs when one partition is a prefix of the other", () => {
    fc.assert(
      fc.property(pair, bytes, bytes, (a, longer, sort) => {
        const b = { partition: Uint8Array.from([...a.partition, ...longer]), sort };
        const flat = Buffer.compare(joinKey(a), joinKey(b));
        assert.equal(sign(flat), sign(compareKeys(a, b)));
      }),
    );
  });

  it("never begin with 00 00", () => {
    fc.assert(
      fc.property(pair, (each) => {
        const flat = joinKey(each);
        assert.notDeepEqual([flat[0], flat[1]], [0, 0]);
      }),
    );
  });

  it("cost two bytes when the partition has no byte 00", () => {
    assert.equal(joinKey(key("partition", [0, 0, 0])).length, 9 + 2 + 3);
  });

  it("fit the maximum for pairs of the announced length, and may not with one byte more", () => {
    for (const flatBytesMax of [40, 100, 2000, 4026]) {
      const longest = pairBytesMax(flatBytesMax);
      assertAbove(flatBytesMax + 1, worstFlatBytes(longest));
      assertAbove(worstFlatBytes(longest + 1), flatBytesMax);
    }
  });

  it("are refused when they are truncated or invalid", () => {
    for (const wrong of [
      "",
      "abc",
      [97, 0],
      [97, 0, 0],
      [97, 0, 3, 1],
      [0, 2, 1, 2],
      [0, 2, ...new Array(17).fill(18)],
    ]) {
      assert.throws(() => splitKey(key(wrong, "").partition), RangeError);
    }
  });

  it("are split in a reused buffer as they are split alone", () => {
    const place = Buffer.alloc(2000);
    const splitter = new KeySplitter();
    fc.assert(
      fc.property(fc.array(pair, { minLength: 1, maxLength: 10 }), fc.nat(3), (pairs, start) => {
        for (const each of pairs.flatMap((one) => [one, one])) {
          const flat = joinKey(each);
          place.set(flat, start);
          assertSameKey(splitter.split(place, start, start + flat.length), each);
        }
      }),
    );
  });
});

it("A key splitter does not mistake a partition with a byte 00 for the one before it", () => {
  const place = Buffer.alloc(100);
  const splitter = new KeySplitter();
  const plain = key([97], [0, ...new Array(40).fill(1)]);
  const zero = key([97, 0], new Array(24).fill(1));
  const lengths = [plain, zero, plain, zero].map((each) => {
    const flat = joinKey(each);
    place.set(flat);
    assertSameKey(splitter.split(place, 0, flat.length), each);
    return flat.length;
  });
  assert.equal(new Set(lengths).size, 1);
});

/**
 * These bytes are on disk: `docs/internals/storage-format.md` describes them, and stored data relies on them.
 */
it("Key parts and flat keys have the bytes of storage format 1", () => {
  const ids = [0, 254, 255, 65_279, 65_280].map((id) => hex(encodeId(id)));
  assert.deepEqual(ids, ["0101", "01ff", "020101", "02ffff", "03010101"]);
  const texts = ["a", "é", "\ud7ff", "😀", "\ue000", "\ufffd"].map((each) => hex(encodeText(each)));
  assert.deepEqual(texts, ["61", "c3a9", "ed9fbf", "f09f9880", "f58080", "f6bfbd"]);
  const plain = joinKey({ partition: encodeText("Sales"), sort: encodeText("00042") });
  assert.equal(hex(plain), "53616c65730001" + "3030303432");
  const withZero = joinKey(key([97, 0, 98], [99]));
  assert.equal(hex(withZero), "610002" + "62" + "00".repeat(15) + "01" + "63");
});

function hex(code: Uint8Array): string {
  return Buffer.from(code).toString("hex");
}

describe("positions", () => {
  const prefix = fc.oneof(
    bytes,
    fc.array(fc.constantFrom(254, 255), { maxLength: 3 }).map((all) => Uint8Array.from(all)),
  );

  it("after(key) is the first position after the key", () => {
    fc.assert(
      fc.property(pair, pair, (a, b) => {
        assert.equal(compareKeys(a, b) < 0, compareKeys(after(a), b) <= 0);
      }),
    );
  });

  it("partitionRange contains exactly the keys of the partition", () => {
    fc.assert(
      fc.property(bytes, pair, (partition, each) => {
        assert.equal(
          isInside(each, partitionRange(partition)),
          equalBytes(each.partition, partition),
        );
      }),
    );
  });

  it("afterPartition comes before exactly the larger partitions", () => {
    fc.assert(
      fc.property(bytes, pair, (partition, each) => {
        const isLarger = Buffer.compare(each.partition, partition) > 0;
        assert.equal(compareKeys(afterPartition(partition), each) <= 0, isLarger);
      }),
    );
  });

  it("partitionPrefixRange contains exactly the partitions with the prefix", () => {
    fc.assert(
      fc.property(prefix, bytes, pair, (start, rest, other) => {
        const within = { partition: Uint8Array.from([...start, ...rest]), sort: other.sort };
        assert.equal(isInside(within, partitionPrefixRange(start)), true);
        const begins = equalBytes(other.partition.subarray(0, start.length), start);
        assert.equal(isInside(other, partitionPrefixRange(start)), begins);
      }),
    );
  });

  it("sortPrefixRange contains exactly the keys of the partition whose sort has the prefix", () => {
    fc.assert(
      fc.property(prefix, bytes, pair, (start, rest, other) => {
        const { partition, sort } = other;
        const within = { partition, sort: Uint8Array.from([...start, ...rest]) };
        const range = sortPrefixRange(partition, start);
        assert.equal(isInside(within, range), true);
        assert.equal(isInside(other, range), equalBytes(sort.subarray(0, start.length), start));
        assert.equal(
          isInside({ partition: Uint8Array.from([...partition, 0]), sort }, range),
          false,
        );
      }),
    );
  });

  it("prefixEnd is undefined for a prefix of only 255s", () => {
    assert.equal(prefixEnd(Uint8Array.of()), undefined);
    assert.equal(prefixEnd(Uint8Array.of(255, 255)), undefined);
    assert.deepEqual(prefixEnd(Uint8Array.of(1, 255)), Uint8Array.of(2));
  });

  it("prefixEnd does not change the prefix", () => {
    const prefix = Buffer.from("ab");
    prefixEnd(prefix);
    assert.equal(prefix.toString(), "ab");
  });

  it("keyBytes counts both parts", () => {
    assert.equal(keyBytes(key("abc", [1, 2])), 5);
  });
});

function isInside(each: Key, { start, end }: { start: Key; end?: Key | undefined }): boolean {
  return compareKeys(each, start) >= 0 && (end === undefined || compareKeys(each, end) < 0);
}

/** The longest flat key of any pair of this length made of bytes 00. */
function worstFlatBytes(pairBytes: number): number {
  let worst = 0;
  for (let partitionBytes = 0; partitionBytes <= pairBytes; partitionBytes++) {
    const zeros = {
      partition: new Uint8Array(partitionBytes),
      sort: new Uint8Array(pairBytes - partitionBytes),
    };
    worst = Math.max(worst, joinKey(zeros).length);
  }
  return worst;
}

function assertSameKey(a: Key, b: Key): void {
  assertSameBytes(a.partition, b.partition);
  assertSameBytes(a.sort, b.sort);
}

function sign(order: number): number {
  return Math.sign(order);
}
