import type { Cell, Row } from "./entities.ts";

/** As the service takes it: every value with its type. */
export function toJson({ partitionKey, rowKey, cells }: Row): string {
  const keys = [
    `"PartitionKey": ${JSON.stringify(partitionKey)}`,
    `"RowKey": ${JSON.stringify(rowKey)}`,
  ];
  return objectOf([...keys, ...membersOf(cells)]);
}

/** As `toJson`, in one line, as the service writes it: a line of JSONL. */
export function toLine({ partitionKey, rowKey, cells }: Row): string {
  const keys = `"PartitionKey":${JSON.stringify(partitionKey)},"RowKey":${JSON.stringify(rowKey)}`;
  const time = cells.get("Timestamp");
  const others = new Map(cells);
  others.delete("Timestamp");
  const members = membersOf(others, ":");
  return `{${[keys, ...(time ? [`"Timestamp":"${time.text}"`] : []), ...members].join(",")}}\n`;
}

/** As `toJson`, without keys. */
export function propertiesJson(cells: ReadonlyMap<string, Cell>): string {
  return objectOf(membersOf(cells));
}

function objectOf(members: readonly string[]): string {
  return `{\n  ${members.join(",\n  ")}\n}\n`;
}

function membersOf(cells: ReadonlyMap<string, Cell>, colon = ": "): string[] {
  const members: string[] = [];
  for (const [name, { type, text }] of cells) {
    const isBare =
      type === "Edm.Int32" ||
      type === "Edm.Boolean" ||
      (type === "Edm.Double" && /^-?\d/.test(text));
    if (!isBare && type !== "Edm.String")
      members.push(`${JSON.stringify(`${name}@odata.type`)}${colon}"${type}"`);
    members.push(`${JSON.stringify(name)}${colon}${isBare ? text : JSON.stringify(text)}`);
  }
  return members;
}
