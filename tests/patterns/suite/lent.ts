import type { Endpoints } from "./target.ts";

let lent: Endpoints | undefined;

/** The endpoint that the next example receives from `memory()`. */
export function lend(endpoints: Endpoints): void {
  lent = endpoints;
}

/** Replaces the function of the testing kit. */
export function memory(): Endpoints {
  if (!lent) throw new Error("Nothing was lent.");
  return lent;
}
