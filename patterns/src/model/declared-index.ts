import { fnv1a128 } from "../keys/hash.ts";
import { Segment } from "../keys/key.ts";
import { within } from "../keys/key-range.ts";
import type { DeclaredIndex } from "../store/session.ts";
import type { EntityRows } from "./entity-rows.ts";
import type { AnyEntity } from "./follower.ts";

/** Options that may change at any time, because entries do not depend on them. */
const NOT_STORED = ["mode", "queue", "withoutQueue", "timing", "repairOnRead"];
/** `k.hash` may encode the text of a Date, which would name the local time zone in the local language. */
const DATE = Object.assign(new Date(0), {
  toString: () => "Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)",
});
/** Codecs cannot be compared, but their output for a few values can. */
const PROBES = [0, 7, 12_345n, true, "a_B/ë", DATE, "0123456789abcdefghjkmnpqrs"];

/**
 * Changes with the keys, codecs, layouts, copies and options that entries depend on: two indexes with one hash
 * have the same entries. What a function computes is not covered. `uint` and `int` of one width have the same
 * hash: a value that both accept has the same key.
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

/** The hashes of an entity's indexes, each computed once. */
const hashes = new WeakMap<EntityRows, Map<string, string>>();

export function declaredIndex(entity: AnyEntity, index: string): DeclaredIndex {
  const known = hashes.get(entity.rows) ?? new Map<string, string>();
  hashes.set(entity.rows, known);
  const hash = known.get(index) ?? definitionHash(entity, index);
  known.set(index, hash);
  const label = `${entity.name}.${index}`;
  const name = `${entity.table}.${label}@`;
  const { rows } = entity;
  return {
    label,
    name,
    key: name + hash,
    table: entity.table,
    rows: within(rows.row.prefix),
    select: [rows.typeProperty],
    isEntity: ({ properties }) => rows.versionOf(properties) !== undefined,
  };
}

/** What determines how a segment is written in a key, as plain data: equal descriptions write the same text. */
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
