import { sendChangeset } from "../changeset.ts";
import { ServerError } from "../session.ts";
import type { KnownEntity } from "../staged.ts";
import { readEntity } from "../table-facts.ts";
import type { Item, Transaction } from "./transactions.ts";

export type Outcome =
  | { readonly kind: "saved"; readonly etags: readonly (string | undefined)[] }
  | {
      readonly kind: "conflict";
      readonly item: Item;
      readonly message: string;
      /** What the server has now; undefined: no entity with these keys. */
      readonly now: KnownEntity | undefined;
    }
  | { readonly kind: "refused"; readonly error: ServerError; readonly item: Item | undefined };

/** Sends a transaction. Whatever the outcome is but `saved`, nothing of it was written. */
export async function sendTransaction(table: string, { items }: Transaction): Promise<Outcome> {
  try {
    const done = await sendChangeset(items.map(({ operation }) => operation));
    if (done.kind === "done") return { kind: "saved", etags: done.etags };
    const { status, code, message, index } = done;
    const item = index === undefined ? undefined : items[index];
    if (item && CONFLICTS.has(code)) {
      const now = await readNow(table, item);
      return { kind: "conflict", item, message: `${status} ${code}: ${message}`, now };
    }
    return { kind: "refused", error: new ServerError(status, code, message), item };
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    return { kind: "refused", error, item: undefined };
  }
}

const CONFLICTS = new Set([
  ...["UpdateConditionNotSatisfied", "EntityAlreadyExists", "ResourceNotFound"],
]);

async function readNow(table: string, { change }: Item): Promise<KnownEntity | undefined> {
  try {
    return await readEntity(table, change.row);
  } catch (error) {
    if (error instanceof ServerError && error.status === 404) return undefined;
    throw error;
  }
}
