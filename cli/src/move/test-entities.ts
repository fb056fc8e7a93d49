import { createTable } from "./read-table.ts";
import type { TableConnection } from "./table-endpoint.ts";
import { type Change, writeChanges } from "./write-table.ts";

/** For tests: one property of each type, with the values that a careless copy changes. */
export const EVERY_TYPE = [
  '"Text":"a, \\"quoted\\"\\nline, émoji 😀"',
  '"Empty":""',
  '"Whole":1.0',
  '"Fraction":-0.25',
  '"Large@odata.type":"Edm.Double","Large":"Infinity"',
  '"Int":-7',
  '"Big@odata.type":"Edm.Int64","Big":"9007199254740993"',
  '"Yes":true',
  '"When@odata.type":"Edm.DateTime","When":"2026-01-02T03:04:05.1234567Z"',
  '"Id@odata.type":"Edm.Guid","Id":"c9da6455-213d-42c9-9a79-3e9149a57833"',
  '"Bytes@odata.type":"Edm.Binary","Bytes":"AQID"',
].join(",");

export function change(partitionKey: string, rowKey: string, properties = '"Int":1'): Change {
  const keys = `"PartitionKey":${JSON.stringify(partitionKey)},"RowKey":${JSON.stringify(rowKey)}`;
  return { partitionKey, rowKey, entity: Buffer.from(`{${keys},${properties}}`) };
}

export async function fill(
  connection: TableConnection,
  table: string,
  changes: readonly Change[],
): Promise<void> {
  await createTable(connection, table);
  const [refused] = await writeChanges(connection, table, "replace", changes);
  if (refused !== undefined) throw new Error(refused.reason);
}
