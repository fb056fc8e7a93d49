import type { Accounts } from "../auth/accounts.ts";
import { type AuthRules, withPolicies } from "../auth/auth-context.ts";
import type { BackgroundWork } from "../catalog/background-loop.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import { type Foundation, openCatalog } from "../catalog/open-catalog.ts";
import { storedPolicy } from "../catalog/stored-policy.ts";
import { ContentIds } from "../content/content-ids.ts";
import type { ContentStore } from "../content/content-store.ts";
import { RowContentStore } from "../content/row-content-store.ts";
import { partitionRange } from "../engine/key-codec.ts";
import type { Service } from "../http/service.ts";
import type { Gate } from "../wire/gate.ts";
import { BLOB_DOCUMENTS } from "../xml/document-rules.ts";
import { AppendQueue } from "./append-queue.ts";
import { blobPartition } from "./blob-keys.ts";
import type { BlobContext } from "./blob-operation.ts";
import { decodeRecord } from "./blob-record.ts";
import { blobService } from "./blob-service.ts";
import { BlobStore } from "./blob-store.ts";
import type { ContainerValue } from "./container-value.ts";
import { BlockCounts } from "./content-life/block-counts.ts";
import { Collector } from "./content-life/collector.ts";
import { Contents } from "./content-life/contents.ts";
import { LongReads } from "./content-life/long-reads.ts";
import { Notes } from "./content-life/notes.ts";
import { Readers } from "./content-life/readers.ts";
import { releaseAll } from "./content-life/release.ts";
import { DraftExpiry } from "./draft-expiry.ts";

export interface BlobServiceOptions extends Foundation {
  readonly auth: AuthRules;
  readonly accounts: Pick<Accounts, "find">;
  /** The gate for each operation inside a batch. Default: none. */
  readonly gate?: Gate | undefined;
  /** Where large contents are stored; by default in rows of the engine. */
  readonly contentStore?: ContentStore | undefined;
  /** Whether containers may be opened to anonymous callers. Default true. */
  readonly allowsPublicAccess?: boolean | undefined;
}

export interface OpenBlobService {
  readonly service: Service<BlobContext>;
  /** Not started yet. */
  readonly background: readonly BackgroundWork[];
  /** For tests, which do not wait for background work. */
  readonly collector: Collector;
  readonly longReads: LongReads;
  readonly draftExpiry: DraftExpiry;
}

/** Assembles the Blob service on an engine. */
export function openBlobService(options: BlobServiceOptions): OpenBlobService {
  const { engine, clock, ageClock, onError } = options;
  const { collector, contents, ids, longReads, notes, readers } = openContents(options);
  const onLeftOver = () => collector.wake();
  const { catalog, reaper, properties } = openCatalog<ContainerValue>(options, {
    space: KEY_SPACES.blobCatalog,
    rules: BLOB_DOCUMENTS,
    contentsOf: (accountId, containerId) => partitionRange(blobPartition(accountId, containerId)),
    /** Makes garbage of what a blob of a removed container refers to, before the reaper deletes its record. */
    async release(_, value) {
      const { puts, deletes } = releaseAll({ contents, notes }, decodeRecord({ value }));
      if (puts.length + deletes.length === 0) return;
      await engine.commit({ version: engine.nextVersion(), checks: [], puts, deletes });
      onLeftOver();
    },
  });
  const blobs = new BlobStore({ engine, clock, catalog, onLeftOver });
  const draftExpiry = new DraftExpiry({ engine, clock: ageClock, blobs, notes, onError });
  const service = blobService({
    engine,
    clock,
    catalog,
    blobs,
    contents,
    appends: new AppendQueue(blobs, ids),
    blockCounts: new BlockCounts(engine),
    ids,
    notes,
    readers,
    properties,
    reaper,
    auth: withPolicies(options.auth, (address) => storedPolicy(catalog, address)),
    accounts: options.accounts,
    gate: options.gate,
    allowsPublicAccess: options.allowsPublicAccess ?? true,
  });
  const background = [reaper, collector, longReads, draftExpiry];
  return { service, background, collector, longReads, draftExpiry };
}

/** Opens the parts that store contents, note them, and free released ones. */
function openContents({ engine, contentStore: given, onError }: BlobServiceOptions) {
  const ids = new ContentIds(engine);
  const notes = new Notes({ engine, ids, onLeftOver: () => collector.wake(), onError });
  const readers = new Readers();
  const longReads = new LongReads({ engine, readers, onError });
  const rows = new RowContentStore(engine, KEY_SPACES.blobContents);
  const store = given ?? rows;
  const collector: Collector = new Collector({
    engine,
    notes,
    contentStore: store,
    rows,
    readers,
    longReads,
    onError,
  });
  const contents = new Contents({ engine, ids, rows, store, notes, readers });
  return { collector, contents, ids, longReads, notes, readers };
}
