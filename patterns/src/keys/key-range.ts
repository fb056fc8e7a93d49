import { endOf } from "./text.ts";

/** The rows a query may touch inside a partition, as the two comparisons sent to the service. */
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
