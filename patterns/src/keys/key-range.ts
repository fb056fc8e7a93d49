import { endOf } from "./text.ts";

/** The rows that a query may touch in a partition, as the two comparisons sent to the service. */
export interface KeyRange {
  readonly from?: string;
  /** `gt` instead of `ge`. */
  readonly afterFrom?: boolean;
  readonly to?: string;
  /** `le` instead of `lt`. */
  readonly throughTo?: boolean;
}

/** Every key that begins with `prefix`. */
export function within(prefix: string): KeyRange {
  return prefix === "" ? {} : { from: prefix, to: endOf(prefix) };
}

/** False for a range that excludes its only key, as from 5 to before 5. */
export function isOneRow({ from, to, afterFrom, throughTo = false }: KeyRange): boolean {
  return from === to && throughTo && !afterFrom;
}
