import { randomUUID } from "node:crypto";
import { ServiceError } from "@rowhouse/protocol/errors";
import { CallTime } from "../engine/call-time.ts";
import { md5Header, md5Mismatch } from "../wire/content-md5.ts";
import { invalidHeader, requiredHeader } from "../wire/header-values.ts";
import { type Metadata, readMetadata } from "../wire/metadata.ts";
import type { RequestHead } from "../wire/operation.ts";
import { CREATE_ACCESS, WRITE_ACCESS } from "./blob-access.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobContext, type BlobOperation, blobNameOf } from "./blob-operation.ts";
import { accessTierOf, checkNotArchived } from "./blob-properties.ts";
import { type CommittedBlob, contentIdOf } from "./blob-record.ts";
import type { BlobState } from "./blob-store.ts";
import { type Conditions, checkSourceConditions, sourceConditions } from "./conditions.ts";
import { ContentDigest, type Digests } from "./content-life/content-digest.ts";
import { type CopiedContent, copyContent } from "./content-life/copy-content.ts";
import { releaseAll, releaseDraft } from "./content-life/release.ts";
import {
  type CopySource,
  copySourceOf,
  readSource,
  refuseSourceCredentials,
} from "./copy-source.ts";
import { leaseAfterWrite, leaseState } from "./lease.ts";
import { COPY } from "./locate.ts";
import { refuseUnsupported } from "./unsupported.ts";
import { nextModified, validatorHeaders } from "./validators.ts";
import { checkPut, type WriteTerms, writeTermsOf } from "./write-checks.ts";

interface CopyBlobInput extends WriteTerms {
  readonly name: BlobName;
  readonly source: CopySource;
  /** Undefined: the source's metadata. */
  readonly metadata: Metadata | undefined;
  readonly accessTier: string | undefined;
  /** Undefined: as the source is. */
  readonly seals: boolean | undefined;
  /** Copy Blob From URL also returns a checksum of the copied content: an MD5 if the client sent one. */
  readonly isSynchronous: boolean;
  /** Base64: the MD5 that the source is expected to have. */
  readonly sourceMd5: string | undefined;
  readonly sourceConditions: Conditions;
}

interface CopyBlobOutput {
  readonly modified: number;
  readonly copyId: string;
  /** Set for Copy Blob From URL. */
  readonly digests: Digests | undefined;
  readonly input: CopyBlobInput;
}

/**
 * Copy Blob, and Copy Blob From URL: creates a blob with the content and properties of another blob of
 * this server. The copy is complete when the operation answers, so no copy is ever pending.
 */
export const copyBlob: BlobOperation<CopyBlobInput, CopyBlobOutput> = {
  name: "CopyBlob",
  route: { method: COPY, resource: "blob" },
  access: CREATE_ACCESS,

  decode(request) {
    refuseUnsupported(request);
    refuseSourceCredentials(request);
    if (request.header("x-ms-source-lease-id") !== undefined) {
      throw new ServiceError("UnsupportedHeader");
    }
    const metadata = readMetadata(request);
    return {
      name: blobNameOf(request),
      source: copySourceOf(request),
      metadata: metadata.length > 0 ? metadata : undefined,
      accessTier: accessTierOf(request),
      seals: flagOf(request, "x-ms-seal-blob"),
      isSynchronous: flagOf(request, "x-ms-requires-sync") === true,
      sourceMd5: md5Header(request, "x-ms-source-content-md5"),
      ...writeTermsOf(request),
      sourceConditions: sourceConditions(request),
    };
  },

  async run(context, input) {
    for (const time = new CallTime(context.clock); ; time.assertLeft()) {
      const copied = await copyOnce(context, input, time);
      if (copied !== undefined) return copied;
    }
  },

  encode({ modified, copyId, digests, input: { sourceMd5 } }) {
    const headers = validatorHeaders(modified);
    headers.push("x-ms-copy-id", copyId, "x-ms-copy-status", "success");
    if (digests) headers.push("x-ms-content-crc64", digests.crc64);
    if (digests && sourceMd5 !== undefined) headers.push("Content-MD5", sourceMd5);
    return { status: 202, headers };
  },
};

/** @returns undefined when the source has changed in a way that matters: the copy must start over */
async function copyOnce(
  context: BlobContext,
  input: CopyBlobInput,
  time: CallTime,
): Promise<CopyBlobOutput | undefined> {
  const { blobs, clock, readers } = context;
  const { name, source } = input;
  const from = await readSource(context, source, input.caller);
  const original = from.record.blob!;
  checkSourceConditions(input.sourceConditions, original.modified);
  // A copy to another tier is a way to read again what was archived.
  checkNotArchived(input.accessTier === undefined ? original.accessTier : undefined);
  const made = await blobs.readUnlessReleased(source.name, original, () =>
    readers.duringWork(contentIdOf(original) ?? "", () =>
      takeContent(context, input, original, time),
    ),
  );
  if (made === undefined) return undefined;
  const { copied, digests } = made;
  const copyId = randomUUID();
  const isSelf = isOntoItself(input);
  const modified = await blobs.change<number | undefined>(
    name,
    (state, now) => {
      const current = state.record.blob;
      if (isSelf && current?.modified !== original.modified) {
        return { record: "unchanged", result: undefined };
      }
      checkCopy(state, input, original);
      if (input.sourceMd5 !== undefined && digests?.md5 !== input.sourceMd5) {
        throw md5Mismatch(input.sourceMd5, digests?.md5 ?? "");
      }
      const modified = nextModified(now, current?.modified);
      const blob: CommittedBlob = {
        type: original.type,
        size: original.size,
        content: copied?.content ?? original.content,
        modified,
        created: modified,
        properties: original.properties,
        metadata: input.metadata ?? original.metadata,
        accessTier: input.accessTier ?? original.accessTier,
        lease: leaseAfterWrite(current?.lease, input.caller.arrivedAt),
        copy: { id: copyId, source: source.url, bytes: original.size, completedAt: clock.now() },
        blocks: original.blocks,
        sealed:
          original.type === "AppendBlob" && (input.seals ?? original.sealed) ? true : undefined,
      };
      const released = isSelf
        ? releaseDraft(context, state.record)
        : releaseAll(context, state.record);
      return { record: { blob }, released, result: modified };
    },
    copied ? [copied] : [],
  );
  if (modified === undefined) return undefined;
  return { modified, copyId, digests: input.isSynchronous ? digests : undefined, input };
}

/** A copy of a blob onto itself keeps its content. */
function isOntoItself({ name, source }: CopyBlobInput): boolean {
  const { account, container, blob } = source.name;
  return name.account === account && name.container === container && name.blob === blob;
}

/** Computes the requested checksums and copies the content. */
async function takeContent(
  context: BlobContext,
  input: CopyBlobInput,
  original: CommittedBlob,
  time: CallTime,
): Promise<{ digests: Digests | undefined; copied: CopiedContent | undefined }> {
  const { blobs, contents } = context;
  const isSelf = isOntoItself(input);
  if (!isSelf && !contents.isSmall(original.size)) {
    checkCopy(await blobs.read(input.name), input, original);
  }
  // What may fail comes first: a finished copy that is not used would have to be given up.
  const isSummed = input.isSynchronous || input.sourceMd5 !== undefined;
  const digests = isSummed
    ? await digestsOf(contents.read(original, 0, original.size), time)
    : undefined;
  return { digests, copied: isSelf ? undefined : await copyContent(context, original) };
}

/** Abort Copy Blob, which finds no pending copy. */
export const abortCopyBlob: BlobOperation<BlobName, never> = {
  name: "AbortCopyBlob",
  route: { method: "PUT", resource: "blob", comp: "copy" },
  access: WRITE_ACCESS,

  decode(request) {
    const name = "x-ms-copy-action";
    const action = requiredHeader(request, name);
    if (action.toLowerCase() !== "abort") throw invalidHeader(name, action);
    return blobNameOf(request);
  },

  async run({ blobs }, name) {
    const { record } = await blobs.read(name);
    throw new ServiceError(record.blob ? "NoPendingCopyOperation" : "BlobNotFound");
  },

  encode: (never) => never,
};

/** @throws ServiceError as `checkPut`, and InfiniteLeaseDurationRequired */
function checkCopy(state: BlobState, input: CopyBlobInput, source: CommittedBlob): void {
  const { blob } = state.record;
  checkPut(state, input, source.type);
  if (leaseState(blob?.lease, input.caller.arrivedAt) === "leased" && blob!.lease!.seconds >= 0) {
    throw new ServiceError("InfiniteLeaseDurationRequired");
  }
}

function flagOf(head: RequestHead, name: string): boolean | undefined {
  const text = head.header(name)?.toLowerCase();
  return text === undefined ? undefined : text === "true";
}

/**
 * A source may be terabytes long, and no client waits for hours.
 * @throws ServiceError OperationTimedOut
 */
async function digestsOf(content: AsyncIterable<Uint8Array>, time: CallTime): Promise<Digests> {
  const digest = new ContentDigest({ md5: true });
  for await (const part of content) {
    if (time.isOver) throw new ServiceError("OperationTimedOut");
    digest.update(part);
  }
  return digest.digest();
}
