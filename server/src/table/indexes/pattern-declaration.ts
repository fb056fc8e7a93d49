import type { EdmType } from "@rowhouse/protocol/edm";
import type { IndexDefinition, IndexPart } from "../../query/indexes/index-definition.ts";

/**
 * The index as the pattern library declares it: the same table, the same keys, the same properties `basePK` and
 * `baseRK`. The names of the entity's own keys are its declaration's: `partitionKey` and `rowKey` stand for them. If both
 * are one segment each, the library takes the entries over as they are; otherwise it writes others, so the table is to be
 * emptied and built.
 */
export function patternDeclaration({
  name,
  isLocal,
  parts,
}: IndexDefinition): { readonly declaration: string } | { readonly problem: string } {
  const foreign = parts.find((part) => codecOf(part) === undefined);
  if (foreign) {
    const { property, type, descending } = foreign;
    const kind = `${descending ? "descending " : ""}${type.slice("Edm.".length)}`;
    return { problem: `it writes no ${kind}, as ${property} is` };
  }
  const [first, ...others] = parts.map((part) => `k.${codecOf(part)}("${part.property}")`);
  const rest = others.map((codec) => `missing("last", ${codec})`);
  const [partition, rows] = isLocal
    ? ['k.str("partitionKey")', [first, ...rest]]
    : [first, [...rest, 'k.str("partitionKey")']];
  const declaration = [
    "remoteIndex({",
    `  table: "${name}",`,
    `  partition: [${partition}],`,
    `  row: k.ordered(${[...rows, 'k.str("rowKey")'].join(", ")}),`,
    '  copy: "keys",',
    "})",
  ].join("\n");
  return { declaration };
}

const CODECS: Readonly<Record<EdmType, string | undefined>> = {
  "Edm.String": "str",
  "Edm.Int32": "int32",
  "Edm.Int64": "int64",
  "Edm.Double": "double",
  "Edm.Boolean": "bool",
  "Edm.DateTime": "date",
  "Edm.Guid": "guid",
  "Edm.Binary": undefined,
};

function codecOf({ type, descending }: IndexPart): string | undefined {
  if (descending) return type === "Edm.DateTime" ? "dateDesc" : undefined;
  return CODECS[type];
}
