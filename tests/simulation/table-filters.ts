import type { ModelEntity } from "./table-model.ts";

/** A filter in two forms: its text, and its meaning. */
export interface FilterPair {
  readonly text: string;
  readonly passes: (entity: ModelEntity) => boolean;
}

export interface Choices {
  below(n: number): number;
  pick<T>(list: readonly T[]): T;
}

/** A random filter over the keys and two properties that an entity may lack. */
export function randomFilter(
  choices: Choices,
  keys: { readonly partitions: readonly string[]; readonly rows: readonly string[] },
  depth = 3,
): FilterPair {
  const kind = depth === 0 ? choices.below(3) : choices.below(6);
  switch (kind) {
    case 0:
      return comparison("PartitionKey", choices.pick(keys.partitions), choices);
    case 1:
      return comparison("RowKey", choices.pick(keys.rows), choices);
    case 2:
      return choices.below(2) === 0
        ? comparison("n", choices.below(10), choices)
        : comparison("s", choices.pick(["", "a", "b", "é"]), choices);
    case 3: {
      const inner = randomFilter(choices, keys, depth - 1);
      return { text: `not (${inner.text})`, passes: (entity) => !inner.passes(entity) };
    }
    default: {
      const left = randomFilter(choices, keys, depth - 1);
      const right = randomFilter(choices, keys, depth - 1);
      return kind === 4
        ? {
            text: `(${left.text}) and (${right.text})`,
            passes: (entity) => left.passes(entity) && right.passes(entity),
          }
        : {
            text: `(${left.text}) or (${right.text})`,
            passes: (entity) => left.passes(entity) || right.passes(entity),
          };
    }
  }
}

function comparison(name: string, value: string | number, choices: Choices): FilterPair {
  const operator = choices.pick(["eq", "ne", "lt", "le", "gt", "ge"] as const);
  const literal = typeof value === "number" ? String(value) : `'${value.replaceAll("'", "''")}'`;
  return {
    text: `${name} ${operator} ${literal}`,
    passes(entity) {
      const found =
        name === "PartitionKey"
          ? entity.partitionKey
          : name === "RowKey"
            ? entity.rowKey
            : entity.properties[name];
      // A missing property matches no comparison, not even ne.
      if (found === undefined) return false;
      switch (operator) {
        case "eq":
          return found === value;
        case "ne":
          return found !== value;
        case "lt":
          return found < value;
        case "le":
          return found <= value;
        case "gt":
          return found > value;
        case "ge":
          return found >= value;
      }
    },
  };
}
