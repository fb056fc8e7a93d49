import { definitionRefused } from "../errors.ts";
import type { Computed } from "../store/session.ts";

/**
 * Runs the functions of an index (`when`, `each`) twice, on copies of the entity. If a function changes the
 * entity or returns something else the next time, entries are lost.
 * @throws invalid-definition for such a function.
 */
export const checkedTwice: Computed = (name, compute, entity) => {
  const run = () => {
    const copy = structuredClone(entity);
    const result = compute(copy);
    const changed = Object.keys({ ...entity, ...copy }).find(
      (field) => printed(copy[field]) !== printed(entity[field]),
    );
    if (changed === undefined) return result;
    throw definitionRefused(name, changed, "the function changes it; it must be pure");
  };
  const result = run();
  const again = printed(run());
  if (printed(result) === again) return result;
  const answers = `${printed(result)}, then ${again}, for one entity; the function must be pure`;
  throw definitionRefused(name, "result", answers);
};

function printed(value: unknown): string {
  return JSON.stringify([value], (_key, each) => (typeof each === "bigint" ? `${each}n` : each));
}
