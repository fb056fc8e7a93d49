import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { STRUCTURED_BODY } from "@rowhouse/protocol/structured-message";
import { md5Mismatch } from "../wire/content-md5.ts";
import { invalidHeader, requiredHeader } from "../wire/header-values.ts";
import { type Metadata, readMetadata } from "../wire/metadata.ts";
import type { RequestHead } from "../wire/operation.ts";
import { CREATE_ACCESS } from "./blob-access.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobOperation, blobNameOf, ENCRYPTED } from "./blob-operation.ts";
import {
  accessTierOf,
  DEFAULT_TYPE,
  propertiesOfContent,
  verifiedPropertiesOf,
} from "./blob-properties.ts";
import type { BlobProperties, BlobType } from "./blob-record.ts";
import type { BlobState } from "./blob-store.ts";
import { takeContent, type WantedContent, wantedContent } from "./content-from-url.ts";
import type { Digests } from "./content-life/content-digest.ts";
import { referenceTo } from "./content-life/contents.ts";
import { refuseBody } from "./content-life/incoming-content.ts";
import { releaseAll } from "./content-life/release.ts";
import { leaseAfterWrite } from "./lease.ts";
import { refuseUnsupported } from "./unsupported.ts";
import { nextModified, validatorHeaders } from "./validators.ts";
import { checkPut, type WriteTerms, writeTermsOf } from "./write-checks.ts";

interface PutBlobInput extends WriteTerms, WantedContent {
  readonly caller: WriteTerms["caller"];
  readonly name: BlobName;
  readonly type: BlobType;
  /** Whether a source's properties are copied where the request has none. */
  readonly keepsProperties: boolean;
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
 * Put Blob, and Put Blob From URL: creates or replaces a block blob with the content of the body, or an append blob without any.
 * Uncommitted blocks and facts of a copy are dropped. An active lease stays, and its id must be given.
 */
export const putBlob: BlobOperation<PutBlobInput, PutBlobOutput> = {
  name: "PutBlob",
  route: { method: "PUT", resource: "blob" },
  access: CREATE_ACCESS,
  body: "stream",

  decode(request) {
    const type = typeOf(request);
    refuseUnsupported(request);
    const name = blobNameOf(request);
    const length = request.header("x-ms-blob-content-length");
    if (length !== undefined) throw invalidHeader("x-ms-blob-content-length", length);
    const wanted = wantedContent(request, 0, LIMITS.blobBytesMax);
    const { content: announced } = wanted;
    // The headers of a body say nothing about a source.
    const properties = wanted.url ? verifiedPropertiesOf(request) : propertiesOfContent(request);
    // Of two MD5s, the one to be stored counts (not confirmed by a recording).
    const content = properties.contentMd5 ? { ...announced, md5: undefined } : announced;
    if (type === "AppendBlob" && content.bodyBytes > 0) {
      throw invalidHeader("Content-Length", String(content.bodyBytes));
    }
    if (type === "AppendBlob" && wanted.url) throw invalidHeader("x-ms-blob-type", type);
    const keeps = request.header("x-ms-copy-source-blob-properties")?.toLowerCase();
    return {
      ...wanted,
      name,
      type,
      keepsProperties: keeps !== "false",
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
    if (input.url || !contents.isSmall(input.content.bytes)) await judgeNow();
    const isBlockBlob = input.type === "BlockBlob";
    const taken = await takeContent(context, input, (source, expected) =>
      contents.receive(source, expected, { md5: isBlockBlob }),
    ).catch((error) => refuseBody(error, judgeNow));
    const { content, digests, original } = taken;
    const properties = original
      ? withDefaults(input.properties, input.keepsProperties ? original.properties : {})
      : input.properties;
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
          properties: isBlockBlob ? { ...properties, contentMd5: digests.md5 } : properties,
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

function withDefaults(given: BlobProperties, defaults: BlobProperties): BlobProperties {
  return {
    contentType: given.contentType ?? defaults.contentType ?? DEFAULT_TYPE,
    contentEncoding: given.contentEncoding ?? defaults.contentEncoding,
    contentLanguage: given.contentLanguage ?? defaults.contentLanguage,
    contentDisposition: given.contentDisposition ?? defaults.contentDisposition,
    cacheControl: given.cacheControl ?? defaults.cacheControl,
  };
}

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
