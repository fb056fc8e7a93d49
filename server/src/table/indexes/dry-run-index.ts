import type { TableOperation } from "../table-operation.ts";
import { INDEX_ACCESS } from "./index-access.ts";
import type { DeclaredIndex } from "./index-catalog.ts";
import type { DryRun } from "./index-dry-run.ts";
import { jsonResponse, readDeclaration } from "./index-json.ts";

interface DryRunInput extends DeclaredIndex {
  readonly account: string;
}

/**
 * Dry Run Index, ours: what an index would be, from a sample of its table. Changes nothing. Fails as Create Index does,
 * but for names.
 */
export const dryRunIndex: TableOperation<DryRunInput, DryRun> = {
  name: "DryRunIndex",
  route: { method: "POST", resource: "indexes", comp: "dryrun" },
  access: INDEX_ACCESS,
  body: "buffer",
  decode: ({ account, body }) => ({ account: account.name, ...readDeclaration("DryRun", body) }),
  run: ({ indexes: { catalog } }, { account, ...declared }) => catalog.dryRun(account, declared),
  encode: (result) => jsonResponse(200, result),
};
