import { isTableError } from "../errors.ts";
import { isRefusalInside } from "../ports/port-error.ts";
import type { Deadline, Mutation } from "../ports/tables.ts";
import type { Session } from "./session.ts";

/**
 * Commits under the conditions that the mutations name. Undefined when another client wrote one of the rows:
 * before us, or so often after us that nothing shows whether our write happened.
 */
export async function commitIfCurrent(
  { tables }: Session,
  table: string,
  mutations: readonly Mutation[],
  options?: Deadline,
  onLost?: (refusal: unknown) => void,
): Promise<(string | undefined)[] | undefined> {
  try {
    return await tables.commit(table, mutations, options);
  } catch (error) {
    if (!isLostRace(error)) throw error;
    onLost?.(error);
    return undefined;
  }
}

/** Whether a commit failed because of another client's write, or may have. */
export function isLostRace(error: unknown): boolean {
  return isRefusalInside(error, 404, 409, 412) || isTableError(error, "ambiguous-outcome");
}
