import type { Row } from "./entities.ts";

/** As the service takes it: every value with its type. */
export function toJson({ partitionKey, rowKey, cells }: Row): string {
  const members = [
    `"PartitionKey": ${JSON.stringify(partitionKey)}`,
    `"RowKey": ${JSON.stringify(rowKey)}`,
  ];
  for (const [name, { type, text }] of cells) {
    const isBare =
      type === "Edm.Int32" ||
      type === "Edm.Boolean" ||
      (type === "Edm.Double" && /^-?\d/.test(text));
    if (!isBare && type !== "Edm.String")
      members.push(`${JSON.stringify(`${name}@odata.type`)}: "${type}"`);
    members.push(`${JSON.stringify(name)}: ${isBare ? text : JSON.stringify(text)}`);
  }
  return `{\n  ${members.join(",\n  ")}\n}\n`;
}
