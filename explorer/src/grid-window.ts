/** Which part of a grid is seen. Ends are exclusive. */
export interface Window {
  readonly from: number;
  readonly to: number;
}

export function rowsBetween(
  scrollTop: number,
  height: number,
  rowHeight: number,
  count: number,
  overscan: number,
): Window {
  const from = Math.max(0, Math.floor(scrollTop / rowHeight) - overscan);
  const to = Math.min(count, Math.ceil((scrollTop + height) / rowHeight) + overscan);
  return { from: Math.min(from, Math.max(0, to)), to: Math.max(0, to) };
}

/** Where each column begins, and, last, where all end. */
export function offsetsOf(widths: readonly number[]): number[] {
  const offsets = [0];
  for (const width of widths) offsets.push(offsets.at(-1)! + width);
  return offsets;
}

/** The columns from `first` on that are seen between two positions. */
export function columnsBetween(
  offsets: readonly number[],
  first: number,
  start: number,
  end: number,
): Window {
  const count = offsets.length - 1;
  let from = first;
  while (from < count && offsets[from + 1]! <= start) from++;
  let to = from;
  while (to < count && offsets[to]! < end) to++;
  return { from, to };
}
