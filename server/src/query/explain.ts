import { ServiceError } from "@rowhouse/protocol/errors";
import type { Plan } from "./plan.ts";

/** The one textual form of a plan, for people. ASCII on one line, safe in a header. */
export function explain(_plan: Plan): string {
  throw new ServiceError("NotImplemented");
}
