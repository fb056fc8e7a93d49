import {
  type ChangesetAnswer,
  type ChangesetOperation,
  changesetType,
  printChangeset,
  readChangesetAnswer,
} from "@rowhouse/protocol/batch-request";
import { session, wire } from "./session.ts";

/** The address of the account, as operations inside a transaction name it. */
export function accountAddress(): string {
  return `${location.origin}/${session.value!.account}`;
}

/**
 * Sends operations as one entity group transaction.
 * @throws ServerError where the service refuses it as a whole
 */
export async function sendChangeset(
  operations: readonly ChangesetOperation[],
): Promise<ChangesetAnswer> {
  const id = randomId();
  const answer = await wire({
    method: "POST",
    path: "/$batch",
    headers: {
      "Content-Type": changesetType(id),
      Accept: "application/json;odata=minimalmetadata",
    },
    body: printChangeset(operations, id),
  });
  return readChangesetAnswer(await answer.text(), operations.length);
}

/** `crypto.randomUUID` is only where the page came over TLS or from this machine. */
function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
