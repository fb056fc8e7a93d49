import type { Key, Put } from "../../engine/engine.ts";

/** What a commit must contain to release something: notes of garbage, and deletes of rows. */
export interface Released {
  readonly puts: readonly Put[];
  readonly deletes: readonly Key[];
}

export const NOTHING_RELEASED: Released = { puts: [], deletes: [] };

export function bothReleased(one: Released, other: Released): Released {
  return {
    puts: [...one.puts, ...other.puts],
    deletes: [...one.deletes, ...other.deletes],
  };
}
