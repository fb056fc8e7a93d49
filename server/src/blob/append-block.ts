import { LIMITS } from "@rowhouse/protocol/limits";
import { STRUCTURED_BODY } from "@rowhouse/protocol/structured-message";
import type { BodySource } from "../wire/body-source.ts";
import { integerHeader, invalidHeader } from "../wire/header-values.ts";
import { type Appended, judgeAppend, type WantedAppend } from "./append-queue.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobOperation, blobNameOf, ENCRYPTED } from "./blob-operation.ts";
import type { Digests } from "./content-life/content-digest.ts";
import type { ReceivedContent } from "./content-life/contents.ts";
import {
  type IncomingContent,
  incomingContent,
  refuseBody,
} from "./content-life/incoming-content.ts";
import { refuseCopySource, refuseUnsupported } from "./unsupported.ts";
import { validatorHeaders } from "./validators.ts";
import { writeTermsOf } from "./write-checks.ts";

interface AppendBlockInput extends WantedAppend {
  readonly name: BlobName;
  readonly source: BodySource | undefined;
  readonly content: IncomingContent;
}

interface AppendBlockOutput {
  readonly appended: Appended;
  readonly digests: Digests;
  readonly content: IncomingContent;
}

/** Append Block: adds a block to the end of an append blob. */
export const appendBlock: BlobOperation<AppendBlockInput, AppendBlockOutput> = {
  name: "AppendBlock",
  route: { method: "PUT", resource: "blob", comp: "appendblock" },
  access: { resourceType: "o", accountSas: ["a", "w"], serviceSas: ["a", "w"], bearer: "write" },
  body: "stream",

  decode(request) {
    refuseCopySource(request);
    refuseUnsupported(request);
    const name = blobNameOf(request);
    const content = incomingContent(request, LIMITS.appendBlockBytesMax);
    if (content.bytes === 0) throw invalidHeader("Content-Length", "0");
    return {
      name,
      source: request.bodySource,
      content,
      ...writeTermsOf(request),
      position: integerHeader(request, "x-ms-blob-condition-appendpos"),
      sizeMax: integerHeader(request, "x-ms-blob-condition-maxsize"),
    };
  },

  async run({ appends, blobs, contents }, input) {
    const { name, content } = input;
    let received: ReceivedContent;
    try {
      const receiving = contents.receiveForList(input.source, content);
      received = receiving instanceof Promise ? await receiving : receiving;
    } catch (error) {
      return refuseBody(error, async () => {
        judgeAppend((await blobs.read(name)).record.blob, input, content.bytes);
      });
    }
    try {
      const appended = await appends.append(name, received.content, input);
      return { appended, digests: received.digests, content };
    } finally {
      received.content.making?.giveUp();
    }
  },

  encode({ appended, digests, content }) {
    const headers = [
      ...validatorHeaders(appended.modified),
      "x-ms-blob-append-offset",
      String(appended.offset),
      "x-ms-blob-committed-block-count",
      String(appended.blocks),
      "x-ms-content-crc64",
      digests.crc64,
      ...ENCRYPTED,
    ];
    if (content.md5 !== undefined) headers.push("Content-MD5", content.md5);
    if (content.isStructured) headers.push("x-ms-structured-body", STRUCTURED_BODY);
    return { status: 201, headers };
  },
};
