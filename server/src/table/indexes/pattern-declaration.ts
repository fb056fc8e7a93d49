import type { EdmType } from "@rowhouse/protocol/edm";
import type { IndexDefinition, IndexPart } from "../../query/indexes/index-definition.ts";

/**
 * The index as the pattern library declares it: the same table, the same keys, the same properties `basePK` and
 * `baseRK`. The names of the entity's own keys are its declaration's, so they stay to be filled in. If both keys are one
 * segment each, the library takes the entries over as they are; otherwise it writes others, so the table is to be emptied
 * and built.
 */
export function patternDeclaration({ name, isLocal, parts }: IndexDefinition): string {
  const [first, ...others] = parts.map(codecOf);
  const rest = others.map((codec) => `missing("last", ${codec})`);
  const own = "/* the segments of the entity's RowKey, as text */";
  const partition = isLocal ? "/* the entity's partition */" : first!;
  const rows = isLocal
    ? [first!, ...rest, own]
    : [...rest, "/* the segments of the entity's PartitionKey, as text */", own];
  return [
    "remoteIndex({",
    `  table: "${name}",`,
    `  partition: [${partition}],`,
    `  row: k.ordered(${rows.join(", ")}),`,
    '  copy: "keys",',
    "})",
  ].join("\n");
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

function codecOf({ property, type, descending }: IndexPart): string {
  const codec = descending && type !== "Edm.DateTime" ? undefined : CODECS[type];
  if (codec) return `k.${codec}${descending ? "Desc" : ""}("${property}")`;
  return `/* "${property}": the library writes no such ${descending ? "descending " : ""}${type} */`;
}
