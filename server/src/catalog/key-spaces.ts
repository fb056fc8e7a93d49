/**
 * The first byte of every partition says whose it is. Drawn in `docs/internals/storage-format.md`.
 * None is 00, which would cost an escape in flat keys.
 */
export const KEY_SPACES = {
  /** Sort: account name → its id. */
  accounts: 0x01,
  /** Then the account id. Names of tables, service properties, tables under removal. */
  tableCatalog: 0x10,
  /** Then account id, table id, partition key; sort: row key. */
  entities: 0x11,
  queueCatalog: 0x20,
  messages: 0x21,
  blobCatalog: 0x30,
  blobs: 0x31,
} as const;

export type KeySpace = (typeof KEY_SPACES)[keyof typeof KEY_SPACES];
