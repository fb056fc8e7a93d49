import type { Segment } from "../keys/key.ts";
import type { KeyShape } from "../keys/key-shape.ts";
import type { Row } from "./entity-rows.ts";

/** What an entry copies from its base: everything, only the key, or the named fields. */
export type Copy = "full" | "keys" | readonly string[];

/** The options that all index kinds share. `E` names the segments that `each` computes. */
export interface EntryOptions<E extends string = string> {
  /** Default: "full", so that a read by the index need not read the base. */
  readonly copy?: Copy;
  /**
   * Pure. Entities for which it returns false have no entry. Write `(e: Infer<typeof fields>) => …` to type the
   * entity.
   */
  readonly when?: Of<boolean>;
  readonly each?: Each<E>;
}

/**
 * Key segments that are not fields. Each function returns all values that an entity has for the segment: the
 * entity has an entry for every value (for every combination, if there are several segments), and none without
 * a value. Pure.
 */
export type Each<E extends string = string> = {
  readonly [Name in E]: Of<readonly unknown[] | undefined>;
};

/** A function of an entity. Taken from a method type, so that its parameter may have the entity's own type. */
type Of<Result> = { compute(entity: Row): Result }["compute"];

/** Where the entries of an index are stored. */
export interface Place {
  readonly table: string;
  readonly partition: KeyShape;
  readonly row: KeyShape;
}

export function segmentsOf({ partition, row }: Omit<Place, "table">): Segment[] {
  return [...partition.segments, ...row.segments];
}
