import type { WireRequest } from "../wire/operation.ts";
import { invalidParameter, missingParameter } from "../wire/query-parameters.ts";
import { parseMessageId } from "./message-id.ts";
import type { HeldMessage } from "./message-store.ts";
import { parsePopReceipt } from "./pop-receipt.ts";

/**
 * The message that a request names and the pop receipt it presents. The store detects a well-formed but wrong
 * receipt, and an id that cannot be one.
 * @throws ServiceError MissingRequiredQueryParameter or InvalidQueryParameterValue.
 */
export function heldMessageOf({ location, query }: WireRequest): HeldMessage {
  const text = query.get("popreceipt");
  if (text === undefined) throw missingParameter("popreceipt");
  const receipt = parsePopReceipt(text);
  if (!receipt) throw invalidParameter("popreceipt", text, "invalid receipt format");
  return { id: parseMessageId(location.item ?? ""), receipt };
}
