/**
 * The first byte of every partition names its owner. Drawn in `docs/internals/storage-format.md`. None is 00,
 * which would need an escape in flat keys.
 */
export const KEY_SPACES = {
  /** Sort: account name → its id. */
  accounts: 0x01,
  /** One entry: how many processes have begun to serve. */
  processes: 0x02,
  /** Then the account id. Names of tables, service properties, tables being removed. */
  tableCatalog: 0x10,
  /** Then account id, table id, partition key; sort: row key. */
  entities: 0x11,
  /** Then the account id; sort: the id of an index table. How far its building has come. */
  indexBuilds: 0x12,
  /** Then the account's name; sort: the id of a change in bulk. What to do, and how far it is. */
  explorerJobs: 0x13,
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
  /** Sort: id of a thing that is in the making, or to be freed. */
  blobNotes: 0x35,
  /** Sort: a process. The ids that it has been reading for long. */
  blobReads: 0x36,
} as const;

export type KeySpace = (typeof KEY_SPACES)[keyof typeof KEY_SPACES];
