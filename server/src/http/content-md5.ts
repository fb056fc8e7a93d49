import { createHash } from "node:crypto";
import { ServiceError } from "@rowhouse/protocol/errors";
import type { AnyOperation, RequestHead, WireRequest } from "../operation.ts";

/** The operation, which then begins with a look at `Content-MD5` if it takes a body whole. */
export function withContentMd5<Context>(operation: AnyOperation<Context>): AnyOperation<Context> {
  if (operation.body !== "buffer") return operation;
  return {
    ...operation,
    decode(request) {
      checkContentMd5(request);
      return operation.decode(request);
    },
  };
}

const MD5 = /^[A-Za-z0-9+/]{22}==$/;

/**
 * The `Content-MD5` of a request, undefined when there is none.
 * @throws ServiceError InvalidMd5
 */
export function contentMd5Of(head: Pick<RequestHead, "header">): string | undefined {
  const announced = head.header("content-md5");
  if (announced === undefined || announced === "") return undefined;
  if (!MD5.test(announced)) throw new ServiceError("InvalidMd5");
  return announced;
}

/**
 * Compares a body that is all here with the `Content-MD5` its sender may have announced.
 * @throws ServiceError InvalidMd5 or Md5Mismatch.
 */
export function checkContentMd5(request: Pick<WireRequest, "header" | "body">): void {
  const announced = contentMd5Of(request);
  if (announced === undefined) return;
  const calculated = createHash("md5").update(request.body).digest("base64");
  if (calculated !== announced) throw md5Mismatch(announced, calculated);
}

/** Both in base64. */
export function md5Mismatch(announced: string, calculated: string): ServiceError {
  return new ServiceError("Md5Mismatch", {
    details: [
      ["UserSpecifiedMd5", announced],
      ["ServerCalculatedMd5", calculated],
    ],
  });
}
