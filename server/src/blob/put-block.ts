import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { STRUCTURED_BODY } from "@rowhouse/protocol/structured-message";
import type { Check, Entry, Key } from "../engine/engine.ts";
import { missingParameter } from "../wire/query-parameters.ts";
import { grants, WRITE_ACCESS } from "./blob-access.ts";
import { type BlobName, draftBlockKey, draftHeadKey } from "./blob-keys.ts";
import { type BlobContext, type BlobOperation, blobNameOf, ENCRYPTED } from "./blob-operation.ts";
import type { BlobChange, BlobState } from "./blob-store.ts";
import { blockIdBytes, checkBlockId } from "./block-id.ts";
import { takeContent, type WantedContent, wantedContent } from "./content-from-url.ts";
import type { Digests } from "./content-life/content-digest.ts";
import {
  decodeUncommittedBlock,
  putDraftHead,
  putUncommittedBlock,
} from "./content-life/drafts.ts";
import { CRC64_SINCE, refuseBody } from "./content-life/incoming-content.ts";
import type { NewContent } from "./content-life/new-content.ts";
import { NOTHING_RELEASED, type Released } from "./content-life/released.ts";
import { checkLeaseForWrite, leaseAfterWrite } from "./lease.ts";
import { leaseIdOf } from "./lease-request.ts";
import { refuseUnsupported } from "./unsupported.ts";

interface PutBlockInput extends WantedContent {
  readonly name: BlobName;
  readonly block: string;
  readonly leaseId: string | undefined;
  readonly returnsMd5: boolean;
}

interface PutBlockOutput {
  readonly digests: Digests;
  readonly input: PutBlockInput;
}

/**
 * Put Block, and Put Block From URL: stores a block under its id until a block list uses it or it is dropped, at the latest after a
 * week.
 */
export const putBlock: BlobOperation<PutBlockInput, PutBlockOutput> = {
  name: "PutBlock",
  route: { method: "PUT", resource: "blob", comp: "block" },
  access: { ...WRITE_ACCESS, serviceSas: ["w", "c"] },
  body: "stream",

  decode(request) {
    refuseUnsupported(request);
    const name = blobNameOf(request);
    const block = request.query.get("blockid");
    if (block === undefined) throw missingParameter("blockid");
    checkBlockId(block);
    const wanted = wantedContent(request, 1, LIMITS.blockBytesMax);
    const { content } = wanted;
    const leaseId = leaseIdOf(request);
    const returnsMd5 = content.md5 !== undefined || request.version < CRC64_SINCE;
    return { ...wanted, name, block, leaseId, returnsMd5 };
  },

  async run(context, input) {
    const { blobs, contents } = context;
    const judge = (state: BlobState) => judgePutBlock(state, input);
    const judgeNow = async () => judge(await blobs.read(input.name));
    if (input.url || !contents.isSmall(input.content.bytes)) await judgeNow();
    const { content, digests } = await takeContent(context, input, (source, expected) =>
      contents.receive(source, expected, { md5: input.returnsMd5 }),
    ).catch((error) => refuseBody(error, judgeNow));
    const added = await blobs.change(
      input.name,
      (state) => {
        judge(state);
        return stage(context, state, input, content, input.caller.arrivedAt);
      },
      [content],
    );
    if (added.isNew) context.blockCounts.added(added.draft);
    return { digests, input };
  },

  encode({ digests, input: { content, returnsMd5 } }) {
    const headers = [...ENCRYPTED, "x-ms-content-crc64", digests.crc64];
    if (returnsMd5) headers.push("Content-MD5", digests.md5 ?? "");
    if (content.isStructured) headers.push("x-ms-structured-body", STRUCTURED_BODY);
    return { status: 201, headers };
  },
};

/** @throws ServiceError AuthorizationPermissionMismatch, InvalidBlobType, 412 of leases, InvalidBlobOrBlock. */
function judgePutBlock({ record }: BlobState, input: PutBlockInput): void {
  const { blob, draft } = record;
  const { caller } = input;
  // The right to create does not cover an existing blob: changing one needs the right to write.
  if (blob !== undefined && !grants(caller, "w")) {
    throw new ServiceError("AuthorizationPermissionMismatch");
  }
  if (blob !== undefined && blob.type !== "BlockBlob") throw new ServiceError("InvalidBlobType");
  checkLeaseForWrite(blob?.lease, input.leaseId, caller.arrivedAt, "blob");
  if (draft !== undefined && draft.blockIdBytes !== blockIdBytes(input.block)) {
    throw new ServiceError("InvalidBlobOrBlock");
  }
}

interface Staged {
  readonly draft: string;
  readonly isNew: boolean;
}

async function stage(
  context: BlobContext,
  state: BlobState,
  { name, block }: PutBlockInput,
  { stored }: NewContent,
  arrivedAt: number,
): Promise<BlobChange<Staged>> {
  const { engine, ids, blockCounts } = context;
  const { record } = state;
  const { blob } = record;
  const lease = leaseAfterWrite(blob?.lease, arrivedAt);
  const isLeaseGone = blob !== undefined && blob.lease !== lease;
  const isFirst = record.draft === undefined;
  const draft = record.draft ?? { id: ids.next(), blockIdBytes: blockIdBytes(block) };
  const blockKey = draftBlockKey(draft.id, block);
  const headKey = draftHeadKey(draft.id);
  const [head, replaced] = isFirst ? [] : await engine.get([headKey, blockKey]);
  // The draft was released between the two reads. The commit will fail on it, and everything is decided
  // again.
  if (!isFirst && head === undefined) await context.blobs.assertReleased(name, draft.id, "draft");
  const isNew = replaced === undefined;
  if (isNew && !isFirst && (await blockCounts.of(draft.id)) >= LIMITS.uncommittedBlocksMax) {
    throw new ServiceError("BlockCountExceedsLimit", {
      message: ERROR_TEXTS.uncommittedBlockCount,
    });
  }
  return {
    // Putting the same record again would do no harm, but blocks that arrive together would conflict on it.
    record: isLeaseGone
      ? { blob: { ...blob, lease }, draft }
      : isFirst
        ? { ...record, draft }
        : "unchanged",
    checks: isFirst ? [] : [present(headKey), asRead(blockKey, replaced)],
    puts: [putDraftHead(draft.id, name), putUncommittedBlock(draft.id, block, stored!)],
    released: releaseBlock(context, replaced),
    result: { draft: draft.id, isNew },
  };
}

function present(key: Key): Check {
  return { key, expected: "present" };
}

/** When two requests replace the same block, the second must free what the first put. */
function asRead(key: Key, entry: Entry | undefined): Check {
  return { key, expected: entry?.version ?? "absent" };
}

function releaseBlock({ contents }: BlobContext, replaced: Entry | undefined): Released {
  if (replaced === undefined) return NOTHING_RELEASED;
  const { in: place, id } = decodeUncommittedBlock(replaced.value);
  return contents.release({ in: place, id });
}
