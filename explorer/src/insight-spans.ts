/** Times that can be shown, and how many milliseconds they are: as long as a layer of the server keeps, each. */
export const SPANS = [
  ["15 minutes", 900_000],
  ["2 hours", 7_200_000],
  ["12 hours", 43_200_000],
  ["2 days", 172_800_000],
  ["12 days", 1_036_800_000],
] as const;

export function spanOf(name: string | undefined): number {
  return SPANS.find(([each]) => each === name)?.[1] ?? SPANS[0][1];
}
