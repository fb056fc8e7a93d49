import { ServiceError } from "@rowhouse/protocol/errors";
import { refuseAnonymous } from "../auth/authorize.ts";
import { CallTime } from "../engine/call-time.ts";
import type { Engine } from "../engine/engine.ts";
import type { RequestHead } from "../wire/operation.ts";
import { invalidParameter } from "../wire/query-parameters.ts";
import { type ListedBlock, printBlockLists } from "../xml/block-list.ts";
import { xmlResponse } from "../xml/print-xml.ts";
import { READ_ACCESS, readForCaller } from "./blob-access.ts";
import type { BlobContext, BlobOperation } from "./blob-operation.ts";
import type { CommittedBlob } from "./blob-record.ts";
import { checkReadConditions } from "./conditions.ts";
import { uncommittedBlocks } from "./content-life/drafts.ts";
import { readExtents } from "./content-life/extents.ts";
import { type ReadBlobInput, readInputOf } from "./get-blob.ts";
import { checkLeaseForRead } from "./lease.ts";
import { validatorHeaders } from "./validators.ts";

interface GetBlockListInput extends ReadBlobInput {
  readonly which: "committed" | "uncommitted" | "all";
}

interface GetBlockListOutput {
  readonly blob: CommittedBlob | undefined;
  readonly committed: readonly ListedBlock[] | undefined;
  readonly uncommitted: readonly ListedBlock[] | undefined;
}

/** Get Block List: the blob's committed blocks, and its uncommitted ones. */
export const getBlockList: BlobOperation<GetBlockListInput, GetBlockListOutput> = {
  name: "GetBlockList",
  route: { method: "GET", resource: "blob", comp: "blocklist" },
  access: READ_ACCESS,

  decode(request) {
    return {
      ...readInputOf(request),
      which: whichOf(request),
    };
  },

  async run(context, input) {
    for (const time = new CallTime(context.clock); ; time.assertLeft()) {
      const lists = await readLists(context, input);
      if (lists !== undefined) return lists;
    }
  },

  encode({ blob, committed, uncommitted }) {
    const { status, headers, body } = xmlResponse(200, printBlockLists({ committed, uncommitted }));
    const own = ["x-ms-blob-content-length", String(blob?.size ?? 0)];
    if (blob !== undefined) own.push(...validatorHeaders(blob.modified));
    return { status, headers: [...headers, ...own], body };
  },
};

/** @returns undefined when blocks have been released: everything must be read again */
async function readLists(
  context: BlobContext,
  { caller, name, which, leaseId, conditions }: GetBlockListInput,
): Promise<GetBlockListOutput | undefined> {
  const { blobs, engine } = context;
  const { record } = await readForCaller(context, name, caller);
  const { blob, draft } = record;
  if (which !== "committed" && caller.identity.kind === "anonymous") {
    throw refuseAnonymous(caller.verb);
  }
  if (blob === undefined && draft === undefined) throw new ServiceError("BlobNotFound");
  if (blob !== undefined) {
    if (blob.type !== "BlockBlob") throw new ServiceError("InvalidBlobType");
    checkReadConditions(conditions, blob.modified);
    checkLeaseForRead(blob.lease, leaseId, caller.arrivedAt, "blob");
  }
  const read = () => committedList(engine, which === "uncommitted" ? undefined : blob);
  const blocksOfBlob = await blobs.readUnlessReleased(name, blob, read);
  if (blocksOfBlob === undefined) return undefined;
  const committed = which === "uncommitted" ? undefined : blocksOfBlob;
  if (which === "committed") return { blob, committed, uncommitted: undefined };
  if (draft === undefined) return { blob, committed, uncommitted: [] };
  const blocks = await uncommittedBlocks(engine, draft.id);
  if (blocks === undefined) {
    await blobs.assertReleased(name, draft.id, "draft");
    return undefined;
  }
  // In ascending order of their ids.
  const uncommitted = Array.from(blocks, ([id, { length }]) => ({ id, length }));
  return { blob, committed, uncommitted };
}

function whichOf({ query }: RequestHead): GetBlockListInput["which"] {
  const text = query.get("blocklisttype");
  const which = text?.toLowerCase() ?? "committed";
  if (which === "committed" || which === "uncommitted" || which === "all") return which;
  throw invalidParameter("blocklisttype", text ?? "", "committed, uncommitted or all is expected.");
}

/** In the order of the content; empty where the blob was put as a whole. */
async function committedList(
  engine: Engine,
  blob: CommittedBlob | undefined,
): Promise<ListedBlock[]> {
  if (blob?.content.in !== "list") return [];
  const blocks: ListedBlock[] = [];
  for await (const extents of readExtents(engine, blob.content.id, 0, blob.size)) {
    for (const { extent } of extents) {
      if ("block" in extent) blocks.push({ id: extent.block ?? "", length: extent.length });
    }
  }
  return blocks;
}
