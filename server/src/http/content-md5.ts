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
 * The MD5 that a header of the request holds, in base64; undefined when there is none.
 * @throws ServiceError InvalidMd5
 */
export function md5Header(
  head: Pick<RequestHead, "header">,
  name: "content-md5" | "x-ms-blob-content-md5" | "x-ms-source-content-md5",
): string | undefined {
  const text = head.header(name);
  if (text === undefined || text === "") return undefined;
  if (!MD5.test(text)) throw new ServiceError("InvalidMd5");
  return text;
}

/**
 * Compares a body that is all here with the `Content-MD5` its sender may have announced.
 * @throws ServiceError InvalidMd5 or Md5Mismatch.
 */
export function checkContentMd5(request: Pick<WireRequest, "header" | "body">): void {
  const announced = md5Header(request, "content-md5");
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
