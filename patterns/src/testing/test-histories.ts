/**
 * How many random histories a pattern is compared with its model in: as many as a run of all tests has time
 * for, or PATTERN_HISTORIES from the environment.
 */
export function histories(usually: number): { readonly numRuns: number } {
  return { numRuns: Number(process.env.PATTERN_HISTORIES ?? usually) };
}

/** How many schedules a test interleaves its clients in: likewise, or PATTERN_SCHEDULES. */
export function schedules(usually: number): number {
  return Number(process.env.PATTERN_SCHEDULES ?? usually);
}
