/**
 * The path of an entity below its account: `People(PartitionKey='O''Brien',RowKey='a%20b')`. Quotes
 * within a key are doubled and not escaped; everything that is not plain ASCII in a URL is escaped
 * as UTF-8. The keys must be well-formed UTF-16, as stored keys are.
 */
export function entityPath(table: string, partitionKey: string, rowKey: string): string {
  return `${table}(PartitionKey='${escapeKey(partitionKey)}',RowKey='${escapeKey(rowKey)}')`;
}

/** Whether these bytes of a key, or of several, are the same in a path. */
export function isPlainKey(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (PLAIN_BYTES[bytes[i]!] === 0) return false;
  return true;
}

function escapeKey(key: string): string {
  // Most keys are letters, digits and dashes and need no escaping; the test costs a fifth of it.
  return PLAIN_KEY.test(key) ? key : encodeURIComponent(key).replaceAll("'", "''");
}

const PLAIN_KEY = /^[A-Za-z0-9_.-]*$/;
const PLAIN_BYTES = Uint8Array.from({ length: 256 }, (_, byte) =>
  PLAIN_KEY.test(String.fromCharCode(byte)) ? 1 : 0,
);
