import type { Literal } from "@rowhouse/protocol/filter-tree";
import fc from "fast-check";

/** Values of every type that often coincide or are neighbors, among them numbers that are equal across types, and long ones. */
export const randomLiterals: fc.Arbitrary<Literal> = fc.oneof(
  fc
    .oneof(
      fc.string({ unit: fc.constantFrom(...'ab!"#~é\uffff😀 %/?\\\0'), maxLength: 3 }),
      fc
        .tuple(
          fc.constantFrom("x", "%", "é", "x%"),
          fc.integer({ min: 10, max: 230 }),
          fc.constantFrom("", "a", "~", "%"),
        )
        .map(([unit, count, end]) => unit.repeat(count) + end),
    )
    .map((value): Literal => ({ type: "Edm.String", value })),
  fc
    .oneof(fc.integer({ min: -3, max: 3 }), fc.constantFrom(-(2 ** 31), 2 ** 31 - 1))
    .map((value): Literal => ({ type: "Edm.Int32", value })),
  fc
    .oneof(
      fc.bigInt({ min: -3n, max: 3n }),
      fc.constantFrom(-(2n ** 63n), 2n ** 63n - 1n, 2n ** 53n, 2n ** 53n + 1n),
    )
    .map((value): Literal => ({ type: "Edm.Int64", value })),
  fc
    .oneof(
      fc.constantFrom(-3, -1.5, -0, 0, 0.5, 1, 2, 3, 2 ** 53, 2 ** 63, -(2 ** 63)),
      fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
    )
    .map((value): Literal => ({ type: "Edm.Double", value })),
  fc.boolean().map((value): Literal => ({ type: "Edm.Boolean", value })),
  fc
    .constantFrom(0n, 1n, 635_424_264_000_000_000n, 3_155_378_975_999_999_999n)
    .map((value): Literal => ({ type: "Edm.DateTime", value })),
  fc
    .constantFrom("00000000-0000-0000-0000-000000000005", "c56a4180-65aa-42ec-a945-5fd21dec0538")
    .map((value): Literal => ({ type: "Edm.Guid", value })),
  fc
    .oneof(
      fc.uint8Array({ max: 1, maxLength: 2 }),
      fc.integer({ min: 30, max: 120 }).map((length) => new Uint8Array(length).fill(7)),
    )
    .map((value): Literal => ({ type: "Edm.Binary", value })),
);
