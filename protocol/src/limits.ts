/**
 * Every limit of the services, in one place. Sizes are bytes unless the name says otherwise.
 * Source: "Understanding the Table service data model", "Performing entity group transactions".
 */
export const LIMITS = {
  accountNameLengthMin: 3,
  accountNameLengthMax: 24,
  accountKeysMax: 2,

  /** Queues and containers. */
  resourceNameLengthMin: 3,
  resourceNameLengthMax: 63,
  /** Names and values together. */
  metadataBytesMax: 8192,

  tableNameLengthMin: 3,
  tableNameLengthMax: 63,

  /** Of one key; twice the documented limit. Accepted if the key also fits the engine's own limit. */
  keyLengthMax: 1024,

  customPropertiesMax: 252,
  propertyNameLengthMax: 255,
  /** 64 KiB of UTF-16. */
  stringLengthMax: 32_768,
  binaryBytesMax: 65_536,
  /** By the published capacity formula, see `entitySize`. */
  entityBytesMax: 1_048_576,

  /**
   * Members of a JSON body, annotations not counted. More than an entity may have properties,
   * because null ones do not count there. Bounds the work one body can cause.
   */
  bodyMembersMax: 1024,
  /** The text of a message, in UTF-8. */
  messageBytesMax: 65_536,
  /** The XML document around it: escaping may double the text. */
  messageBodyBytesMax: 131_584,
  messagesReceivedMax: 32,
  visibilityTimeoutSecondsDefault: 30,
  /** Seven days. */
  visibilityTimeoutSecondsMax: 604_800,
  messageTimeToLiveSecondsDefault: 604_800,
  /** What fits 64 bits, sign included; what does not is no number to the service (not confirmed by a recording). */
  messageTimeToLiveSecondsMax: 2 ** 63 - 1,
  /** The longest before version 2017-07-29. */
  messageTimeToLiveSecondsMaxOld: 604_800,
  /** Queues, containers, blobs or their common prefixes on one page of a list. */
  pageNamesMax: 5000,

  bodyBytesMax: 4 * 1_048_576,
  transactionOperationsMax: 100,
  /** Header lines of one request inside a batch; clients send fewer than twenty. */
  batchPartHeadersMax: 128,

  pageEntitiesMax: 1000,
  /** Ours, for lists of names too: the service bounds pages by time and count alone, so a page can reach a gigabyte. */
  pageBytesMax: 8 * 1_048_576,
  /** Ours: of its JSON. Escapes, metadata, and nulls for what `$select` names make it many times longer than the entities. */
  pageJsonBytesMax: 16 * 1_048_576,
  /** A query stops collecting after this long and returns a continuation. */
  pageTimeMs: 5_000,

  /** Only the URL bounds the length of a filter; nesting is what costs. */
  filterDepthMax: 200,
  /** Of objects and arrays in a member that is ignored; all others are flat. */
  jsonDepthMax: 100,
  selectNamesMax: 252,
  /** More key ranges than any list of keys in a URL produces; beyond it a query reads wider ranges. */
  planReadsMax: 4096,
  headersBytesMax: 96 * 1024,
  clientRequestIdLengthMax: 1024,

  /**
   * Ours: an XML document to be parsed. Access policies, or service properties with the maximum of
   * CORS rules and every character escaped, take less than a tenth of it. The worst document of
   * this size takes 60 ms to parse; one of 4 MiB took two seconds.
   */
  xmlBodyBytesMax: 131_072,
  /** Nesting of XML elements; the deepest valid document has five levels. */
  xmlDepthMax: 32,

  accessPoliciesMax: 5,
  accessPolicyIdLengthMax: 64,
  corsRulesMax: 5,
  corsOriginsMax: 64,
  corsLiteralHeadersMax: 64,
  corsPrefixedHeadersMax: 2,
  corsItemLengthMax: 256,
  corsTextBytesMax: 2048,
  corsMaxAgeSecondsMax: 2 ** 31 - 1,
  retentionDaysMax: 365,

  /** UTF-16 code units after decoding. Accepted if the name also fits the engine's own key limit. */
  blobNameLengthMax: 1024,
  blobNameSegmentsMax: 254,
  blobBytesMax: 5000 * 1_048_576,
  blockBytesMax: 4000 * 1_048_576,
  appendBlockBytesMax: 100 * 1_048_576,
  blockIdBytesMax: 64,
  committedBlocksMax: 50_000,
  uncommittedBlocksMax: 100_000,
  /** Ours: 50,000 of the longest ids in the longest elements, with room for line breaks. */
  blockListBodyBytesMax: 8 * 1_048_576,
  /** Uncommitted blocks are deleted when no block was added to the blob for this long. */
  uncommittedBlocksMs: 7 * 24 * 60 * 60 * 1000,
  /** Largest range whose checksum can be requested. */
  checkedRangeBytesMax: 4 * 1_048_576,
  copySourceLengthMax: 2048,
  leaseSecondsMin: 15,
  leaseSecondsMax: 60,
  leaseBreakSecondsMax: 60,

  /** The oldest `x-ms-version` that tables serve, and the default for a request that names none. */
  tableVersionMin: "2009-09-19",
  /** The oldest that queues and blobs serve. */
  storageVersionMin: "2015-02-21",
  /** Requests in a batch of the Blob service. */
  blobBatchPartsMax: 256,
  /** The oldest default version that an account may set. */
  defaultServiceVersionMin: "2008-10-27",

  /**
   * Ours: the memory of one process for unfinished requests, bodies in work and unread answers, of all clients
   * together; a share of the machine's, within these limits. See `http/peer-memory.ts` of the server.
   */
  peerMemoryShare: 1 / 16,
  peerMemoryBytesMin: 64 * 1_048_576,
  peerMemoryBytesMax: 160 * 1_048_576,
  /** Ours: a body that arrives, or an answer that is read, more slowly than this for long ends its connection. */
  bytesPerSecondMin: 1024,
  /** Ours: of the files that a process may open, so many may be connections. The rest is for data. */
  connectionFilesShare: 3 / 4,

  clockSkewMs: 15 * 60 * 1000,
} as const;
