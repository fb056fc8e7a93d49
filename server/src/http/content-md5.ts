import { createHash } from "node:crypto";
import { ServiceError } from "@rowhouse/protocol/errors";
import type { WireRequest } from "../operation.ts";

const MD5 = /^[A-Za-z0-9+/]{22}==$/;

/**
 * Compares a body that is all here with the `Content-MD5` its sender may have announced.
 * @throws ServiceError InvalidMd5 or Md5Mismatch.
 */
export function checkContentMd5(request: Pick<WireRequest, "header" | "body">): void {
  const announced = request.header("content-md5");
  if (announced === undefined || announced === "") return;
  if (!MD5.test(announced)) throw new ServiceError("InvalidMd5");
  const calculated = createHash("md5").update(request.body).digest("base64");
  if (calculated === announced) return;
  throw new ServiceError("Md5Mismatch", {
    details: [
      ["UserSpecifiedMd5", announced],
      ["ServerCalculatedMd5", calculated],
    ],
  });
}
