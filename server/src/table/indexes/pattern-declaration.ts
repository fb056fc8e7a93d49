import type { EdmType } from "@rowhouse/protocol/edm";
import type { IndexDefinition, IndexPart } from "../../query/indexes/index-definition.ts";

/**
 * The index as the pattern library declares it: the same table, the same keys, the same properties `basePK` and
 * `baseRK`. The names of the entity's own keys are its declaration's, so they stay to be filled in.
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

const CODECS: Readonly<Record<EdmType, string>> = {
  "Edm.String": "str",
  "Edm.Int32": "int64",
  "Edm.Int64": "int64",
  "Edm.Double": "double",
  "Edm.Boolean": "bool",
  "Edm.DateTime": "date",
  "Edm.Guid": "guid",
  "Edm.Binary": "str",
};

function codecOf({ property, type, descending }: IndexPart): string {
  if (descending && type === "Edm.DateTime") return `k.dateDesc("${property}")`;
  const note = descending ? " /* descending: has no codec of the library */" : "";
  return `k.${CODECS[type]}("${property}")${note}`;
}
