import { fnv1a128 } from "../keys/hash.ts";
import { Segment } from "../keys/key.ts";
import type { AnyEntity } from "./entity.ts";

/** What may change at any time, for it leaves the entries as they are. */
const NOT_STORED = ["mode", "queue", "withoutQueue", "timing", "repairOnRead"];
/** Its text, which `k.hash` makes something of, would name the time zone in the language of whoever asks. */
const DATE = Object.assign(new Date(0), {
  toString: () => "Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)",
});
/** Codecs cannot be compared, but what they make of a few values can. */
const PROBES = [0, 7, 12_345n, true, "a_B/ë", DATE, "0123456789abcdefghjkmnpqrs"];

/**
 * Changes with the keys, codecs, layouts, copies and options that entries depend on: two indexes of one hash have
 * the same entries. What a function computes is not seen. `uint` and `int` of one width are one: what both can hold
 * stands at the same keys.
 */
export function definitionHash(entity: AnyEntity, name: string): string {
  const { partition, row } = entity.rows;
  const parts = [
    entity.indexes[name]?.options,
    partition.parts,
    partition.layout,
    row.parts,
    row.layout,
  ];
  const text = JSON.stringify(parts, (key, value: unknown) => {
    if (NOT_STORED.includes(key)) return undefined;
    if (typeof value === "function") return "computed";
    return value instanceof Segment ? describeSegment(value) : value;
  });
  return fnv1a128(text).slice(0, 12);
}

/** What decides how a segment looks in a key, as plain data: two that are described alike write the same. */
export function describeSegment(segment: Segment): unknown[] {
  const { name, field, form, descending, lossless, options } = segment;
  const written = PROBES.map((value) =>
    attempt(() => segment.encode(value, { escapeUnderscore: true })),
  );
  const read = Array.from("0123456789", (digit) => attempt(() => segment.decode(digit)));
  return [name, field, form, descending, lossless, ...written, ...read].concat(
    options.absent ?? [],
  );
}

function attempt(work: () => unknown): string {
  try {
    return String(work());
  } catch {
    return "";
  }
}
