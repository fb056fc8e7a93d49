import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { STRUCTURED_BODY } from "@rowhouse/protocol/structured-message";
import type { BodySource } from "../wire/body-source.ts";
import { md5Mismatch } from "../wire/content-md5.ts";
import { invalidHeader, requiredHeader } from "../wire/header-values.ts";
import { type Metadata, readMetadata } from "../wire/metadata.ts";
import type { RequestHead } from "../wire/operation.ts";
import { CREATE_ACCESS } from "./blob-access.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobOperation, blobNameOf, ENCRYPTED } from "./blob-operation.ts";
import { accessTierOf, propertiesOfContent } from "./blob-properties.ts";
import type { BlobProperties, BlobType } from "./blob-record.ts";
import type { BlobState } from "./blob-store.ts";
import type { Digests } from "./content-life/content-digest.ts";
import { referenceTo } from "./content-life/contents.ts";
import {
  type IncomingContent,
  incomingContent,
  refuseBody,
} from "./content-life/incoming-content.ts";
import { releaseAll } from "./content-life/release.ts";
import { leaseAfterWrite } from "./lease.ts";
import { refuseCopySource, refuseUnsupported } from "./unsupported.ts";
import { nextModified, validatorHeaders } from "./validators.ts";
import { checkPut, type WriteTerms, writeTermsOf } from "./write-checks.ts";

interface PutBlobInput extends WriteTerms {
  readonly name: BlobName;
  readonly type: BlobType;
  readonly source: BodySource | undefined;
  readonly content: IncomingContent;
  readonly properties: BlobProperties;
  readonly metadata: Metadata;
  readonly accessTier: string | undefined;
}

interface PutBlobOutput {
  readonly modified: number;
  readonly digests: Digests;
  readonly input: PutBlobInput;
}

/**
 * Put Blob: creates or replaces a block blob with the content of the body, or an append blob without any.
 * Uncommitted blocks and facts of a copy are dropped. An active lease stays, and its id must be given.
 */
export const putBlob: BlobOperation<PutBlobInput, PutBlobOutput> = {
  name: "PutBlob",
  route: { method: "PUT", resource: "blob" },
  access: CREATE_ACCESS,
  body: "stream",

  decode(request) {
    const type = typeOf(request);
    refuseCopySource(request);
    refuseUnsupported(request);
    const name = blobNameOf(request);
    const length = request.header("x-ms-blob-content-length");
    if (length !== undefined) throw invalidHeader("x-ms-blob-content-length", length);
    const properties = propertiesOfContent(request);
    const announced = incomingContent(request, LIMITS.blobBytesMax);
    // Of two MD5s, the one to be stored counts (not confirmed by a recording).
    const content = properties.contentMd5 ? { ...announced, md5: undefined } : announced;
    if (type === "AppendBlob" && content.bodyBytes > 0) {
      throw invalidHeader("Content-Length", String(content.bodyBytes));
    }
    return {
      name,
      type,
      source: request.bodySource,
      content,
      properties,
      metadata: readMetadata(request),
      accessTier: accessTierOf(request),
      ...writeTermsOf(request),
    };
  },

  async run(context, input) {
    const { blobs, contents } = context;
    const { name } = input;
    const judge = (state: BlobState) => checkPut(state, input);
    const judgeNow = async () => judge(await blobs.read(name));
    // Checked before a large body is read: a refusal afterwards would waste all of it.
    if (!contents.isSmall(input.content.bytes)) await judgeNow();
    const isBlockBlob = input.type === "BlockBlob";
    const { content, digests } = await contents
      .receive(input.source, input.content, { md5: isBlockBlob })
      .catch((error) => refuseBody(error, judgeNow));
    const { contentMd5 } = input.properties;
    const modified = await blobs.change(
      name,
      (state, now) => {
        judge(state);
        if (isBlockBlob && contentMd5 !== undefined && contentMd5 !== digests.md5) {
          throw md5Mismatch(contentMd5, digests.md5 ?? "");
        }
        const modified = nextModified(now, state.record.blob?.modified);
        const blob = {
          type: input.type,
          size: digests.bytes,
          content: referenceTo(content.stored),
          modified,
          created: modified,
          properties: isBlockBlob
            ? { ...input.properties, contentMd5: digests.md5 }
            : input.properties,
          metadata: input.metadata,
          accessTier: input.accessTier,
          lease: leaseAfterWrite(state.record.blob?.lease, input.caller.arrivedAt),
          blocks: isBlockBlob ? undefined : 0,
        };
        const released = releaseAll(context, state.record);
        return { record: { blob }, released, result: modified };
      },
      [content],
    );
    return { modified, digests, input };
  },

  encode({ modified, digests, input: { type, content } }) {
    const headers = [...validatorHeaders(modified), ...ENCRYPTED];
    if (type === "BlockBlob") {
      headers.push("x-ms-content-crc64", digests.crc64, "Content-MD5", digests.md5 ?? "");
    }
    if (content.isStructured) headers.push("x-ms-structured-body", STRUCTURED_BODY);
    return { status: 201, headers };
  },
};

function typeOf(head: RequestHead): BlobType {
  const name = "x-ms-blob-type";
  const type = requiredHeader(head, name);
  switch (type.toLowerCase()) {
    case "blockblob":
      return "BlockBlob";
    case "appendblob":
      return "AppendBlob";
    case "pageblob":
      throw new ServiceError("NotImplemented");
    default:
      throw invalidHeader(name, type);
  }
}
