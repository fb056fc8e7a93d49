/**
 * Where the page is, all of it in the part of the address that is never sent:
 *
 *     #/                                        the tables
 *     #/t/People?filter=…&explain=1             a table
 */
export interface Route {
  /** Undefined: the list of tables. */
  readonly table: string | undefined;
  readonly filter: string;
  readonly explains: boolean;
}

export function readRoute(text: string): Route {
  const [, name, query = ""] = /^#\/t\/([^?]+)(?:\?(.*))?$/.exec(text) ?? [];
  const parameters = new URLSearchParams(query);
  return {
    table: name !== undefined && /^\w+$/.test(name) ? name : undefined,
    filter: parameters.get("filter") ?? "",
    explains: parameters.get("explain") === "1",
  };
}

export function addressOf({ table, filter = "", explains = false }: Partial<Route>): string {
  if (table === undefined) return "#/";
  const query = new URLSearchParams({
    ...(filter !== "" && { filter }),
    ...(explains && { explain: "1" }),
  }).toString();
  return `#/t/${table}${query && `?${query}`}`;
}
