import type { Cell, Row } from "./entities.ts";

/** As the service takes it: every value with its type. */
export function toJson({ partitionKey, rowKey, cells }: Row): string {
  const keys = [
    `"PartitionKey": ${JSON.stringify(partitionKey)}`,
    `"RowKey": ${JSON.stringify(rowKey)}`,
  ];
  return objectOf([...keys, ...membersOf(cells)]);
}

/** The same without keys. */
export function propertiesJson(cells: ReadonlyMap<string, Cell>): string {
  return objectOf(membersOf(cells));
}

function objectOf(members: readonly string[]): string {
  return `{\n  ${members.join(",\n  ")}\n}\n`;
}

function membersOf(cells: ReadonlyMap<string, Cell>): string[] {
  const members: string[] = [];
  for (const [name, { type, text }] of cells) {
    const isBare =
      type === "Edm.Int32" ||
      type === "Edm.Boolean" ||
      (type === "Edm.Double" && /^-?\d/.test(text));
    if (!isBare && type !== "Edm.String")
      members.push(`${JSON.stringify(`${name}@odata.type`)}: "${type}"`);
    members.push(`${JSON.stringify(name)}: ${isBare ? text : JSON.stringify(text)}`);
  }
  return members;
}
