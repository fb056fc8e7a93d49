import { LIMITS } from "@rowhouse/protocol/limits";
import { STRUCTURED_BODY } from "@rowhouse/protocol/structured-message";
import { integerHeader } from "../wire/header-values.ts";
import { type Appended, judgeAppend, type WantedAppend } from "./append-queue.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobOperation, blobNameOf, ENCRYPTED } from "./blob-operation.ts";
import { type Taken, takeContent, type WantedContent, wantedContent } from "./content-from-url.ts";
import type { Digests } from "./content-life/content-digest.ts";
import { type IncomingContent, refuseBody } from "./content-life/incoming-content.ts";
import { refuseUnsupported } from "./unsupported.ts";
import { validatorHeaders } from "./validators.ts";
import { writeTermsOf } from "./write-checks.ts";

interface AppendBlockInput extends WantedAppend, WantedContent {
  readonly caller: WantedAppend["caller"];
  readonly name: BlobName;
}

interface AppendBlockOutput {
  readonly appended: Appended;
  readonly digests: Digests;
  readonly content: IncomingContent;
}

/** Append Block, and Append Block From URL: adds a block to the end of an append blob. */
export const appendBlock: BlobOperation<AppendBlockInput, AppendBlockOutput> = {
  name: "AppendBlock",
  route: { method: "PUT", resource: "blob", comp: "appendblock" },
  access: { resourceType: "o", accountSas: ["a", "w"], serviceSas: ["a", "w"], bearer: "write" },
  body: "stream",

  decode(request) {
    refuseUnsupported(request);
    const name = blobNameOf(request);
    return {
      ...wantedContent(request, 1, LIMITS.appendBlockBytesMax),
      name,
      ...writeTermsOf(request),
      position: integerHeader(request, "x-ms-blob-condition-appendpos"),
      sizeMax: integerHeader(request, "x-ms-blob-condition-maxsize"),
    };
  },

  async run(context, input) {
    const { appends, blobs, contents } = context;
    const { name, content } = input;
    let received: Taken;
    try {
      received = await takeContent(context, input, (source, expected) =>
        contents.receiveForList(source, expected),
      );
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
