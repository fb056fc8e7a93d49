/**
 * The first byte of every partition says whose it is. Drawn in `docs/internals/storage-format.md`.
 * None is 00, which would cost an escape in flat keys.
 */
export const KEY_SPACES = {
  /** Sort: account name → its id. */
  accounts: 0x01,
  /** One entry: how many processes have begun to serve. */
  processes: 0x02,
  /** Then the account id. Names of tables, service properties, tables under removal. */
  tableCatalog: 0x10,
  /** Then account id, table id, partition key; sort: row key. */
  entities: 0x11,
  queueCatalog: 0x20,
  messages: 0x21,
  blobCatalog: 0x30,
  /** Then account id, container id; sort: blob name in UTF-8. */
  blobs: 0x31,
  /** Then the id of an extent list; sort: where an extent ends. */
  blobExtents: 0x32,
  /** Then the id of a draft; sort: its head, or a block id. */
  blobDrafts: 0x33,
  /** Then a content id; sort: number of the row. */
  blobContents: 0x34,
  /** Sort: id of what is in the making, or to be freed. */
  blobNotes: 0x35,
  /** Sort: a process. What it is reading for long. */
  blobReads: 0x36,
} as const;

export type KeySpace = (typeof KEY_SPACES)[keyof typeof KEY_SPACES];
