import { LIMITS } from "@rowhouse/protocol/limits";
import { invalidParameter } from "../wire/query-parameters.ts";

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Whether the text is base64 of 1 to 64 bytes. */
function isBlockId(text: string): boolean {
  return text !== "" && BASE64.test(text) && blockIdBytes(text) <= LIMITS.blockIdBytesMax;
}

/** @throws ServiceError InvalidQueryParameterValue */
export function checkBlockId(text: string): void {
  if (isBlockId(text)) return;
  const reason = `Base64 of 1 to ${LIMITS.blockIdBytesMax} bytes is expected.`;
  throw invalidParameter("blockid", text, reason);
}

/** The decoded length of an id, which is the same for all uncommitted blocks of a blob. */
export function blockIdBytes(base64: string): number {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return (base64.length / 4) * 3 - padding;
}
