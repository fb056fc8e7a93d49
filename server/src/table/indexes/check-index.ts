import type { TableOperation } from "../table-operation.ts";
import { INDEX_ACCESS, type IndexAddress, indexAddressOf } from "./index-access.ts";
import type { CheckedPiece, CheckPosition } from "./index-check.ts";
import { jsonResponse, readPosition } from "./index-json.ts";

interface CheckIndexInput extends IndexAddress {
  readonly from: CheckPosition | undefined;
}

/**
 * Verify Index, ours: compares a piece of the index with its table, in both directions, beside writers. The answer says
 * where the next piece begins; send it as the body. An index with missing entries is used no longer.
 */
export const verifyIndex = checkIndex("VerifyIndex", "verify", false);

/** Repair Index, ours: the same, and mends what it finds. An index repaired to the end is used again. */
export const repairIndex = checkIndex("RepairIndex", "repair", true);

function checkIndex(
  name: string,
  comp: string,
  repairs: boolean,
): TableOperation<CheckIndexInput, CheckedPiece> {
  return {
    name,
    route: { method: "POST", resource: "index", comp },
    access: INDEX_ACCESS,
    body: "buffer",
    decode: (request) => ({ ...indexAddressOf(request), from: readPosition(request.body) }),
    run: ({ indexes: { check } }, { account, name: index, from }) =>
      check.piece(account, index, { from, repairs }),
    encode: ({ next, entities, entries, findings, examples }) =>
      jsonResponse(200, { next: next ?? null, entities, entries, findings, examples }),
  };
}
