import { printMicros } from "@rowhouse/protocol/date-time";
import { isAnnotated } from "@rowhouse/protocol/edm";
import { entityPath } from "@rowhouse/protocol/entity-url";
import { etagOf } from "@rowhouse/protocol/etag";
import { bareOffset, valueOffset } from "@rowhouse/protocol/json-property";
import type { WireRequest } from "../operation.ts";
import { parts, type RecordView } from "./entity-record.ts";
import type { MetadataLevel } from "./negotiate.ts";

// INTERIM
function one(
  record: Uint8Array,
  request: WireRequest,
  level: MetadataLevel,
  select: readonly string[] | undefined,
  single: boolean,
): string {
  const p = parts(record);
  const out: string[] = [];
  const table = request.location.name;
  const ts = printMicros(p.micros);
  if (level !== "nometadata") {
    if (single)
      out.push(
        `"odata.metadata":"${request.baseUrl}/$metadata#${table}/@Element${select ? `&$select=${select.join(",")}` : ""}"`,
      );
    if (level === "fullmetadata") {
      const path = entityPath(table, p.pk, p.rk);
      out.push(
        `"odata.type":"${request.account.name}.${table}"`,
        `"odata.id":"${request.baseUrl}/${path}"`,
      );
      out.push(`"odata.etag":${JSON.stringify(etagOf(ts))}`, `"odata.editLink":"${path}"`);
    } else out.push(`"odata.etag":${JSON.stringify(etagOf(ts))}`);
  }
  const full = level === "fullmetadata";
  const props = new Map<string, string>([
    ["PartitionKey", `"PartitionKey":${JSON.stringify(p.pk)}`],
    ["RowKey", `"RowKey":${JSON.stringify(p.rk)}`],
    ["Timestamp", (full ? `"Timestamp@odata.type":"Edm.DateTime",` : "") + `"Timestamp":"${ts}"`],
  ]);
  let start = 0;
  for (const { form, nameBytes, end } of p.properties) {
    const v = start + valueOffset(form, nameBytes);
    const name = p.json.toString("utf8", v - 2 - nameBytes, v - 2);
    const from =
      level === "nometadata" && isAnnotated(form) ? start + bareOffset(form, nameBytes) : start;
    props.set(name, p.json.toString("utf8", from + 1, end));
    start = end;
  }
  if (select) for (const name of select) out.push(props.get(name) ?? `"${name}":null`);
  else out.push(...props.values());
  return `{${out.join(",")}}`;
}
export function entityJson(
  record: Uint8Array,
  request: WireRequest,
  level: MetadataLevel,
  select?: readonly string[],
): string {
  return one(record, request, level, select, true);
}
export class EntityListWriter {
  #request: WireRequest;
  #level: MetadataLevel;
  #select: readonly string[] | undefined;
  #items: string[] = [];
  constructor(request: WireRequest, level: MetadataLevel, select: readonly string[] | undefined) {
    this.#request = request;
    this.#level = level;
    this.#select = select;
  }
  add(view: RecordView): void {
    this.#items.push(one(view.record, this.#request, this.#level, this.#select, false));
  }
  finish(): Uint8Array {
    const meta =
      this.#level === "nometadata"
        ? ""
        : `"odata.metadata":"${this.#request.baseUrl}/$metadata#${this.#request.location.name}${this.#select ? `&$select=${this.#select.join(",")}` : ""}",`;
    return Buffer.from(`{${meta}"value":[${this.#items.join(",")}]}`);
  }
}
