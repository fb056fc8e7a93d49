import type { MetadataLevel } from "./negotiate.ts";
import type { TableRequest } from "./table-operation.ts";

/** `<base>/Tables('t')`: the value of Location, DataServiceId and odata.id. Names need no escaping. */
export function tableUrl(request: TableRequest, name: string): string {
  return `${request.baseUrl}/Tables('${name}')`;
}

/** The body of one table, created or looked up. */
export function tableJson(request: TableRequest, name: string, level: MetadataLevel): string {
  if (level === "nometadata") return `{"TableName":"${name}"}`;
  return `{"odata.metadata":"${request.baseUrl}/$metadata#Tables/@Element",${members(request, name, level)}}`;
}

/** The body of a page of tables. */
export function tableListJson(
  request: TableRequest,
  names: readonly string[],
  level: MetadataLevel,
): string {
  const items = names.map((name) => `{${members(request, name, level)}}`).join(",");
  if (level === "nometadata") return `{"value":[${items}]}`;
  return `{"odata.metadata":"${request.baseUrl}/$metadata#Tables","value":[${items}]}`;
}

function members(request: TableRequest, name: string, level: MetadataLevel): string {
  if (level !== "fullmetadata") return `"TableName":"${name}"`;
  return (
    `"odata.type":"${request.account.name}.Tables","odata.id":"${tableUrl(request, name)}",` +
    `"odata.editLink":"Tables('${name}')","TableName":"${name}"`
  );
}
