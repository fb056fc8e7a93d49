import type { TableOperation } from "../table-operation.ts";
import { INDEX_ACCESS } from "./index-access.ts";
import type { DeclaredIndex } from "./index-catalog.ts";
import { jsonResponse, readDeclaration, type ShownIndex, showIndex } from "./index-json.ts";

interface CreateIndexInput extends DeclaredIndex {
  readonly account: string;
}

interface CreateIndexOutput {
  readonly created: boolean;
  readonly index: ShownIndex;
}

/**
 * Create Index, ours: writers keep it from now on; it is built in the background. A small table's is ready when the
 * answer is sent. Repeating a declaration changes nothing. Fails with TableNotFound (404), TableAlreadyExists (409) if
 * the name is taken, and InvalidInput (400) for what cannot be kept.
 */
export const createIndex: TableOperation<CreateIndexInput, CreateIndexOutput> = {
  name: "CreateIndex",
  route: { method: "PUT", resource: "index" },
  access: INDEX_ACCESS,
  body: "buffer",

  decode: ({ account, location, body }) => ({
    account: account.name,
    ...readDeclaration(location.name, body),
  }),

  async run({ indexes: { catalog, builder } }, { account, ...declared }) {
    const { created, kept } = await catalog.create(account, declared);
    if (created) {
      // The index of a small table is ready with the answer.
      await builder.step(account, declared.name, 1000);
      builder.wake();
    }
    const now = await catalog.find(account, declared.name);
    return { created, index: showIndex(now ?? kept) };
  },

  encode: ({ created, index }) => jsonResponse(created ? 201 : 200, index),
};
