import type { AuthContext } from "../auth/auth-context.ts";
import type { BackgroundWork } from "../catalog/background-loop.ts";
import { Catalog } from "../catalog/catalog.ts";
import { KEY_SPACES } from "../catalog/key-spaces.ts";
import { Reaper } from "../catalog/reaper.ts";
import { ServicePropertiesStore } from "../catalog/service-properties-store.ts";
import { storedPolicy } from "../catalog/stored-policy.ts";
import type { Clock } from "../clock.ts";
import { ContentIds } from "../content/content-ids.ts";
import type { ContentStore } from "../content/content-store.ts";
import { RowContentStore } from "../content/row-content-store.ts";
import type { Engine } from "../engine/engine.ts";
import { partitionRange } from "../engine/key-codec.ts";
import type { Service } from "../http/service.ts";
import { BLOB_DOCUMENTS } from "../xml/document-rules.ts";
import { AppendQueue } from "./append-queue.ts";
import { blobPartition } from "./blob-keys.ts";
import type { BlobContext } from "./blob-operation.ts";
import { decodeRecord } from "./blob-record.ts";
import { blobService } from "./blob-service.ts";
import { BlobStore } from "./blob-store.ts";
import { BlockCounts } from "./block-counts.ts";
import { Collector } from "./collector.ts";
import type { ContainerValue } from "./container-value.ts";
import { Contents } from "./contents.ts";
import { DraftExpiry } from "./draft-expiry.ts";
import { Notes } from "./notes.ts";
import { Readers } from "./readers.ts";
import { releaseAll } from "./release.ts";

export interface BlobServiceOptions {
  readonly engine: Engine;
  readonly clock: Clock;
  /** By which drafts are old enough to be freed. */
  readonly ageClock: Clock;
  readonly accountIds: ReadonlyMap<string, number>;
  readonly onError: (error: unknown) => void;
  readonly auth: Omit<AuthContext, "clock" | "storedPolicy">;
  /** Where large contents live; by default in rows of the engine. */
  readonly contents?: ContentStore | undefined;
  /** Whether containers may be opened to strangers. Default true. */
  readonly allowsPublicAccess?: boolean | undefined;
}

export interface OpenBlobService {
  readonly service: Service<BlobContext>;
  /** Not begun yet. */
  readonly background: readonly BackgroundWork[];
  /** For tests, which do not wait for the background. */
  readonly collector: Collector;
  readonly draftExpiry: DraftExpiry;
}

/** Puts the Blob service together on an engine. */
export function openBlobService(options: BlobServiceOptions): OpenBlobService {
  const { engine, clock, ageClock, accountIds, onError } = options;
  const space = KEY_SPACES.blobCatalog;
  const catalog = new Catalog<ContainerValue>(engine, space, accountIds, clock);
  const ids = new ContentIds(engine);
  const onLeftOver = () => collector.wake();
  const notes = new Notes({ engine, ids, onLeftOver, onError });
  const readers = new Readers();
  const rows = new RowContentStore(engine, KEY_SPACES.blobContents);
  const store = options.contents ?? rows;
  const collector: Collector = new Collector({
    engine,
    notes,
    contents: store,
    rows,
    readers,
    onError,
  });
  const contents = new Contents({ engine, ids, rows, store, notes, readers });
  const blobs = new BlobStore({ engine, clock, catalog, onLeftOver });
  const draftExpiry = new DraftExpiry({ engine, clock: ageClock, blobs, notes, onError });
  const reaper = new Reaper({
    engine,
    catalog,
    contentsOf: (accountId, containerId) => partitionRange(blobPartition(accountId, containerId)),
    release: (_, value) => release(value),
    onError,
  });
  const properties = new ServicePropertiesStore({
    engine,
    clock,
    space,
    accountIds,
    rules: BLOB_DOCUMENTS,
  });
  const context: BlobContext = {
    engine,
    clock,
    catalog,
    blobs,
    contents,
    appends: new AppendQueue(blobs, ids, clock),
    blockCounts: new BlockCounts(engine),
    ids,
    notes,
    readers,
    properties,
    reaper,
    auth: {
      ...options.auth,
      clock,
      storedPolicy: (address) => storedPolicy(catalog, address),
    },
    allowsPublicAccess: options.allowsPublicAccess ?? true,
  };

  /** What a blob of a removed container refers to is garbage before its record goes. */
  async function release(value: Uint8Array): Promise<void> {
    const { puts, deletes } = releaseAll(context, decodeRecord({ value }));
    if (puts.length + deletes.length === 0) return;
    await engine.commit({ version: engine.nextVersion(), checks: [], puts, deletes });
    onLeftOver();
  }

  return {
    service: blobService(context),
    background: [reaper, collector, draftExpiry],
    collector,
    draftExpiry,
  };
}
