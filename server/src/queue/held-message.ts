import type { ServiceError } from "@rowhouse/protocol/errors";
import type { WireRequest } from "../wire/operation.ts";
import { invalidParameter, missingParameter } from "../wire/query-parameters.ts";
import { parseMessageId } from "./message-id.ts";
import type { HeldMessage } from "./message-store.ts";
import { type PopReceipt, parsePopReceipt } from "./pop-receipt.ts";

/**
 * The message that a request names and the pop receipt it presents, or why it is none: the service looks for the
 * queue first.
 */
export function heldMessageOf({ location, query }: WireRequest): HeldMessage {
  return { id: parseMessageId(location.item ?? ""), receipt: receiptOf(query.get("popreceipt")) };
}

function receiptOf(text: string | undefined): PopReceipt | ServiceError {
  if (text === undefined) return missingParameter("popreceipt");
  return (
    parsePopReceipt(text) ?? invalidParameter("popreceipt", text, "Invalid pop receipt format")
  );
}
