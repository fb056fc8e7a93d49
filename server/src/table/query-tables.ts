import { encodeContinuation } from "@rowhouse/protocol/continuation";
import { LIMITS } from "@rowhouse/protocol/limits";
import { parseTableQueryOptions, type TableQueryOptions } from "@rowhouse/protocol/query-options";
import { compileTablePredicate } from "../query/table-predicate.ts";
import { contentTypeOf, type MetadataLevel, negotiateLevel } from "./negotiate.ts";
import { tableListJson } from "./table-json.ts";
import { ODATA_HEADERS, type TableOperation } from "./table-operation.ts";

interface QueryTablesInput extends TableQueryOptions {
  readonly account: string;
  readonly arrivedAt: number;
  readonly level: MetadataLevel;
}

interface QueryTablesOutput {
  readonly names: readonly string[];
  readonly next: string | undefined;
  readonly level: MetadataLevel;
}

/** Query Tables: a page of names, ordered by their lower-case form. */
export const queryTables: TableOperation<QueryTablesInput, QueryTablesOutput> = {
  name: "QueryTables",
  route: { method: "GET", resource: "tables" },
  access: { resourceType: "sc", accountSas: ["l"], serviceSas: [], bearer: "read" },

  decode(request) {
    const { account, arrivedAt, query } = request;
    const level = negotiateLevel(request);
    return { ...parseTableQueryOptions(query.pairs), level, account: account.name, arrivedAt };
  },

  async run({ catalog }, input) {
    const { account, arrivedAt, filter, top = LIMITS.pageEntitiesMax, from = "", level } = input;
    const shows = filter ? compileTablePredicate(filter) : () => true;
    const { names, next } = await catalog.page(account, {
      prefix: "",
      from,
      max: top,
      shows,
      deadline: arrivedAt + LIMITS.pageTimeMs,
    });
    return {
      names: names.map(({ name }) => name),
      next: top === 0 ? undefined : next?.toLowerCase(),
      level,
    };
  },

  encode({ names, next, level }, request) {
    const headers = [...ODATA_HEADERS, "Content-Type", contentTypeOf(level)];
    if (next !== undefined)
      headers.push("x-ms-continuation-NextTableName", encodeContinuation(next));
    return { status: 200, headers, body: tableListJson(request, names, level) };
  },
};
