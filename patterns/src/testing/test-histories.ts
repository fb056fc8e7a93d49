/**
 * How many random histories a pattern is compared with its model in: as many as a run of all tests has time
 * for, or PATTERN_HISTORIES of the environment.
 */
export function histories(usually: number): { readonly numRuns: number } {
  return { numRuns: Number(process.env.PATTERN_HISTORIES ?? usually) };
}
