import type { Endpoints } from "./target.ts";

let lent: Endpoints | undefined;

/** What the next example finds where it says `memory()`. */
export function lend(endpoints: Endpoints): void {
  lent = endpoints;
}

/** Stands in for the testing kit's. */
export function memory(): Endpoints {
  if (!lent) throw new Error("Nothing was lent.");
  return lent;
}
