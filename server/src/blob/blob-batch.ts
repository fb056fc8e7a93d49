import { randomUUID } from "node:crypto";
import { type BatchPart, parseParts } from "@rowhouse/protocol/batch-mime";
import { reasonOf } from "@rowhouse/protocol/batch-response";
import { ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import { authenticate } from "../auth/authenticate.ts";
import { authorize } from "../auth/authorize.ts";
import { blobAuth } from "../auth/dialect.ts";
import { encodeStorageError } from "../http/storage-refusals.ts";
import { toServiceError } from "../wire/error-response.ts";
import type { AnyOperation, WireRequest, WireResponse } from "../wire/operation.ts";
import { Router } from "../wire/router.ts";
import { BatchedRequest } from "./batched-request.ts";
import type { BlobContext, BlobOperation } from "./blob-operation.ts";
import { deleteBlob } from "./delete-blob.ts";
import type { BlobResource } from "./locate.ts";
import { setBlobTier } from "./set-blob-tier.ts";

const operations = new Router<AnyOperation<BlobContext>>([deleteBlob, setBlobTier]);

interface Batch {
  readonly request: WireRequest;
  readonly parts: readonly BatchPart[];
}

interface Answered {
  readonly part: BatchPart;
  readonly answer: WireResponse;
}

/**
 * Blob Batch, of an account or of a container: up to 256 requests to delete blobs or set their tier, each with
 * credentials of its own and an answer of its own. They are independent: one that fails does not undo others.
 */
export function blobBatch(resource: BlobResource): BlobOperation<Batch, readonly Answered[]> {
  return {
    name: "BlobBatch",
    route: { method: "POST", resource, comp: "batch" },
    access: {
      resourceType: "o",
      accountSas: ["d", "w"],
      serviceSas: ["d", "w"],
      bearer: "write",
    },
    body: "buffer",

    decode(request) {
      const { blobBatchPartsMax: max } = LIMITS;
      const parts = parseParts(request.header("content-type"), request.body, max);
      if (parts.length > max) throw new ServiceError("ExceedsMaxBatchRequestCount");
      return { request, parts };
    },

    async run(context, { request, parts }) {
      const answered: Answered[] = [];
      for (const part of parts) {
        const answer = await answerTo(new BatchedRequest(request, part), context);
        answered.push({ part, answer });
      }
      return answered;
    },

    encode(answered, { requestId, version }) {
      const boundary = `batchresponse_${randomUUID()}`;
      const always = `x-ms-request-id: ${requestId}\r\nx-ms-version: ${version}\r\n`;
      const parts = answered.map(
        (each) => `--${boundary}\r\nContent-Type: application/http\r\n${printPart(each, always)}`,
      );
      return {
        status: 202,
        headers: ["Content-Type", `multipart/mixed; boundary=${boundary}`],
        body: `${parts.join("")}--${boundary}--\r\n`,
      };
    },
  };
}

async function answerTo(request: BatchedRequest, context: BlobContext): Promise<WireResponse> {
  try {
    request.checkPlace();
    request.identity = await authenticate(request, blobAuth, context.auth);
    const operation = operations.find(request);
    if (operation === undefined) throw new ServiceError("InvalidInput");
    const { access } = operation;
    authorize(
      request,
      request.identity,
      typeof access === "function" ? access(request) : access,
      blobAuth,
    );
    const { name: resource } = request.location;
    await context.gate?.enter({ operation: operation.name, resource });
    return operation.encode(await operation.run(context, operation.decode(request)), request);
  } catch (error) {
    const now = context.clock.now();
    const { requestId } = request;
    const facts = { requestId, now, head: undefined, accept: undefined };
    return encodeStorageError(toServiceError(error), facts);
  }
}

function printPart({ part, answer }: Answered, always: string): string {
  const { status, headers, body } = answer;
  let head = `HTTP/1.1 ${status} ${reasonOf(status)}\r\n${always}`;
  for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`;
  const text = typeof body === "string" ? body : "";
  const id = part.mimeId === undefined ? "" : `Content-ID: ${part.mimeId}\r\n`;
  return `${id}\r\n${head}Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}\r\n`;
}
