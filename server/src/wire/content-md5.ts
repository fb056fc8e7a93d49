import { createHash } from "node:crypto";
import { ServiceError } from "@rowhouse/protocol/errors";
import type { AnyOperation, RequestHead, WireRequest } from "./operation.ts";

/** The operation, preceded by a check of `Content-MD5` if it reads its body whole. */
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
 * The MD5 in a header of the request, in base64; undefined when the header is absent.
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
 * Compares a body that has arrived whole with the `Content-MD5` its sender announced, if any.
 * @throws ServiceError InvalidMd5 or Md5Mismatch.
 */
export function checkContentMd5(request: Pick<WireRequest, "header" | "body">): void {
  const announced = md5Header(request, "content-md5");
  if (announced === undefined) return;
  const calculated = createHash("md5").update(request.body).digest("base64");
  if (calculated !== announced) throw md5Mismatch(announced, calculated);
}

/** @param announced in base64, like `calculated` */
export function md5Mismatch(announced: string, calculated: string): ServiceError {
  return new ServiceError("Md5Mismatch", {
    details: [
      ["UserSpecifiedMd5", announced],
      ["ServerCalculatedMd5", calculated],
    ],
  });
}
