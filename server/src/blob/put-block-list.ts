import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { LOST } from "../engine/contention.ts";
import type { Check, Engine, Put } from "../engine/engine.ts";
import type { BodySource } from "../wire/body-source.ts";
import { type Metadata, readMetadata } from "../wire/metadata.ts";
import { type BlockChoice, parseBlockList } from "../xml/block-list.ts";
import { CREATE_ACCESS } from "./blob-access.ts";
import { type BlobName, draftHeadKey } from "./blob-keys.ts";
import { type BlobContext, type BlobOperation, blobNameOf, ENCRYPTED } from "./blob-operation.ts";
import { accessTierOf, propertiesOfList } from "./blob-properties.ts";
import type { BlobProperties, CommittedBlob } from "./blob-record.ts";
import type { BlobState } from "./blob-store.ts";
import type { Digests } from "./content-life/content-digest.ts";
import { uncommittedBlocks } from "./content-life/drafts.ts";
import {
  type ContentExtent,
  putExtent,
  readExtents,
  type StoredContent,
} from "./content-life/extents.ts";
import {
  CRC64_SINCE,
  type IncomingContent,
  incomingContent,
  receiveWhole,
  refuseBody,
} from "./content-life/incoming-content.ts";
import { type NewContent, NO_CONTENT } from "./content-life/new-content.ts";
import { releaseContent, releaseDraft } from "./content-life/release.ts";
import { bothReleased } from "./content-life/released.ts";
import { leaseAfterWrite } from "./lease.ts";
import { refuseUnsupported } from "./unsupported.ts";
import { nextModified, validatorHeaders } from "./validators.ts";
import { checkPut, type WriteTerms, writeTermsOf } from "./write-checks.ts";

interface PutBlockListInput extends WriteTerms {
  readonly name: BlobName;
  readonly source: BodySource | undefined;
  readonly body: IncomingContent;
  readonly properties: BlobProperties;
  readonly metadata: Metadata;
  readonly accessTier: string | undefined;
  readonly returnsMd5: boolean;
}

interface PutBlockListOutput {
  readonly modified: number;
  readonly digests: Digests;
  readonly input: PutBlockListInput;
}

/** Longer lists are stored before the commit that gives them to the blob, to keep that commit short. */
const EXTENTS_IN_COMMIT_MAX = 250;
const EXTENTS_PER_COMMIT = 500;

/**
 * Put Block List: makes the blob from uncommitted blocks and from blocks it already has. Uncommitted blocks
 * that are not in the list are deleted. All of it happens, or nothing.
 */
export const putBlockList: BlobOperation<PutBlockListInput, PutBlockListOutput> = {
  name: "PutBlockList",
  route: { method: "PUT", resource: "blob", comp: "blocklist" },
  access: CREATE_ACCESS,
  // The longest list exceeds the limit for buffered bodies.
  body: "stream",

  decode(request) {
    refuseUnsupported(request);
    const body = incomingContent(request, LIMITS.blockListBodyBytesMax);
    return {
      name: blobNameOf(request),
      source: request.bodySource,
      body,
      returnsMd5: body.md5 !== undefined || request.version < CRC64_SINCE,
      properties: propertiesOfList(request),
      metadata: readMetadata(request),
      accessTier: accessTierOf(request),
      ...writeTermsOf(request),
    };
  },

  async run(context, input) {
    const { choices, digests } = await readList(input).catch((error) =>
      refuseBody(error, async () =>
        checkPut(await context.blobs.read(input.name), input, "BlockBlob"),
      ),
    );
    const modified = await context.blobs.settle(input.name, () =>
      commitList(context, input, choices),
    );
    return { modified, digests, input };
  },

  encode({ modified, digests, input: { returnsMd5 } }) {
    const headers = [...validatorHeaders(modified), ...ENCRYPTED];
    headers.push("x-ms-content-crc64", digests.crc64);
    if (returnsMd5) headers.push("Content-MD5", digests.md5 ?? "");
    return { status: 201, headers };
  },
};

async function readList({
  source,
  body,
  returnsMd5,
}: PutBlockListInput): Promise<{ choices: readonly BlockChoice[]; digests: Digests }> {
  const { bytes, digests } = await receiveWhole(source, body, { md5: returnsMd5 });
  return { choices: parseBlockList(bytes), digests };
}

/** Returns LOST when the blob or its draft has changed: everything must be read again. */
async function commitList(
  context: BlobContext,
  input: PutBlockListInput,
  choices: readonly BlockChoice[],
): Promise<number | typeof LOST> {
  const { blobs, engine, ids } = context;
  const state = await blobs.read(input.name);
  const { blob, draft } = state.record;
  checkPut(state, input, "BlockBlob");
  const headKey = draft && draftHeadKey(draft.id);
  const [head] = headKey ? await engine.get([headKey]) : [];
  if (draft && head === undefined) {
    // The draft has just expired, or another list has taken it.
    await blobs.assertReleased(input.name, draft.id, "draft");
    return LOST;
  }
  const extents = await blobs.readUnlessReleased(input.name, blob, () =>
    resolve(engine, state, choices),
  );
  if (extents === undefined) return LOST;
  const list = ids.next();
  const placed = place(list, extents);
  const stored = await storeList(context, list, placed.puts);

  const modified = nextModified(engine.nextVersion(), blob?.modified);
  const checks: Check[] = headKey ? [{ key: headKey, expected: head!.version }] : [];
  const made: CommittedBlob = {
    type: "BlockBlob",
    size: placed.size,
    content: extents.length === 0 ? { in: "nowhere" } : { in: "list", id: list },
    modified,
    created: blob?.created ?? modified,
    properties: input.properties,
    metadata: input.metadata,
    accessTier: input.accessTier,
    lease: leaseAfterWrite(blob?.lease, input.caller.arrivedAt),
  };
  const content = releaseContent(context, state.record, list);
  const blocks = releaseDraft(context, state.record, list);
  const released = bothReleased(content, blocks);
  try {
    const change = { record: { blob: made }, checks, released, result: undefined };
    return (await blobs.commit(state, change, [stored])) ? modified : LOST;
  } finally {
    stored.making?.giveUp();
  }
}

/**
 * The chosen blocks, in order.
 * @returns undefined when the draft has been released
 * @throws ServiceError InvalidBlockList when a block does not exist.
 */
async function resolve(
  engine: Engine,
  { record: { blob, draft } }: BlobState,
  choices: readonly BlockChoice[],
): Promise<ContentExtent[] | undefined> {
  const uncommitted = draft ? await uncommittedBlocks(engine, draft.id) : NO_BLOCKS;
  if (uncommitted === undefined) return undefined;
  const committed = choices.some(
    ({ from, id }) => from === "Committed" || (from === "Latest" && !uncommitted.has(id)),
  )
    ? await committedBlocks(engine, blob)
    : NO_BLOCKS;
  return choices.map(({ from, id }) => {
    const content =
      (from === "Committed" ? undefined : uncommitted.get(id)) ??
      (from === "Uncommitted" ? undefined : committed.get(id));
    if (content === undefined) throw new ServiceError("InvalidBlockList");
    return { in: content.in, id: content.id, length: content.length, block: id };
  });
}

const NO_BLOCKS: ReadonlyMap<string, StoredContent> = new Map();

async function committedBlocks(
  engine: Engine,
  blob: CommittedBlob | undefined,
): Promise<ReadonlyMap<string, StoredContent>> {
  if (blob?.content.in !== "list") return NO_BLOCKS;
  const blocks = new Map<string, StoredContent>();
  for await (const extents of readExtents(engine, blob.content.id, 0, blob.size)) {
    for (const { extent } of extents) {
      if ("block" in extent && extent.block !== undefined) blocks.set(extent.block, extent);
    }
  }
  return blocks;
}

function place(list: string, extents: readonly ContentExtent[]): { size: number; puts: Put[] } {
  let size = 0;
  const puts = extents.map((extent) => {
    size += extent.length;
    return putExtent(list, size, extent);
  });
  return { size, puts };
}

/** Stores the extents of a list, unless they are few enough for the final commit. */
async function storeList(
  { notes }: BlobContext,
  list: string,
  puts: readonly Put[],
): Promise<NewContent> {
  if (puts.length <= EXTENTS_IN_COMMIT_MAX) return { ...NO_CONTENT, puts };
  // `alone`: if the list is given up, its contents stay, because the draft and the old list still own them.
  const making = await notes.begin({ kind: "list", id: list, alone: true });
  try {
    for (let from = 0; from < puts.length; from += EXTENTS_PER_COMMIT) {
      await making.put(puts.slice(from, from + EXTENTS_PER_COMMIT));
    }
  } catch (error) {
    making.giveUp();
    throw error;
  }
  return { ...NO_CONTENT, checks: [making.check], deletes: [making.note], making };
}
