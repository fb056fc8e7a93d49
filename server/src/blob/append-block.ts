import { LIMITS } from "@rowhouse/protocol/limits";
import { STRUCTURED_BODY } from "@rowhouse/protocol/structured-message";
import { integerHeader, invalidHeader } from "../wire/header-values.ts";
import { type Appended, judgeAppend } from "./append-queue.ts";
import type { BlobName } from "./blob-keys.ts";
import { type BlobOperation, blobNameOf, ENCRYPTED } from "./blob-operation.ts";
import { type Conditions, writeConditions } from "./conditions.ts";
import type { Digests } from "./contents/content-digest.ts";
import type { ReceivedContent } from "./contents/contents.ts";
import { type IncomingContent, incomingContent, refuseBody } from "./contents/incoming-content.ts";
import { leaseIdOf } from "./lease-request.ts";
import { refuseCopySource, refuseUnsupported } from "./unsupported.ts";
import { validatorHeaders } from "./validators.ts";

interface AppendBlockInput {
  readonly name: BlobName;
  readonly content: IncomingContent;
  readonly leaseId: string | undefined;
  readonly conditions: Conditions;
  readonly position: number | undefined;
  readonly sizeMax: number | undefined;
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
      content,
      leaseId: leaseIdOf(request),
      conditions: writeConditions(request),
      position: integerHeader(request, "x-ms-blob-condition-appendpos"),
      sizeMax: integerHeader(request, "x-ms-blob-condition-maxsize"),
    };
  },

  async run({ appends, blobs, contents }, input, request) {
    const { name, content, conditions, leaseId, position, sizeMax } = input;
    const wanted = { conditions, leaseId, position, sizeMax, arrivedAt: request.arrivedAt };
    let received: ReceivedContent;
    try {
      const receiving = contents.receiveForList(request.bodySource, content);
      received = receiving instanceof Promise ? await receiving : receiving;
    } catch (error) {
      return refuseBody(error, async () => {
        judgeAppend((await blobs.read(name)).record.blob, wanted, content.bytes);
      });
    }
    try {
      const appended = await appends.append(name, received.content, wanted);
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
