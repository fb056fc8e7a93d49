import { ERROR_TEXTS, ServiceError } from "@rowhouse/protocol/errors";
import { LIMITS } from "@rowhouse/protocol/limits";
import type { Location } from "../wire/operation.ts";

/** The kinds of resource a path can name, and to which operations are routed. */
export type TableResource =
  | "service" // `/`
  | "tables" // `/Tables`
  | "table" // `/Tables('t')`
  | "entities" // `/t`, `/t()`
  | "entity" // `/t(PartitionKey='p',RowKey='r')`
  | "below table" // `/t/Tables`, `/t/u(PartitionKey='p',RowKey='r')`
  | "batch" // `/$batch`
  | "metadata" // `/$metadata`
  | "indexes" // `/_rowhouse/indexes`
  | "index" // `/_rowhouse/indexes/i`
  | "statistics"; // `/_rowhouse/statistics/t`

type TableLocation = Location<TableResource>;

const SERVICE: TableLocation = { resource: "service", name: "" };
const TABLES: TableLocation = { resource: "tables", name: "" };
const BATCH: TableLocation = { resource: "batch", name: "" };
const METADATA: TableLocation = { resource: "metadata", name: "" };

/**
 * Parses the path below the account. It is percent-decoded once, as a whole, because clients differ
 * in whether they escape quotes and parentheses.
 * @throws ServiceError InvalidUri, InvalidInput, OutOfRangeInput, PropertyValueTooLarge or
 * NotImplemented; URIError for an escape that is not UTF-8.
 */
export function locateTable(servicePath: string): TableLocation {
  const path = servicePath.includes("%") ? decodeURIComponent(servicePath) : servicePath;
  if (path === "" || path === "/") return SERVICE;
  const open = path.indexOf("(");
  const end = open >= 0 ? open : path.length - (path.endsWith("/") ? 1 : 0);
  const name = path.slice(1, end);
  if (name.startsWith(OWN_PREFIX)) return locateOwn(path);
  if (name === "" || name.includes("/")) return locateBelowTable(path);
  if (open < 0 && name.startsWith("$")) {
    if (name === "$batch") return BATCH;
    if (name === "$metadata") return METADATA;
  }
  const isTables = name.length === 6 && name.toLowerCase() === "tables";
  if (open < 0) return isTables ? TABLES : { resource: "entities", name };

  const scanner = new KeyScanner(path, open + 1);
  if (scanner.skip(")")) {
    scanner.expectEnd();
    return isTables ? TABLES : { resource: "entities", name };
  }
  if (isTables) {
    const table = scanner.literal();
    scanner.close();
    return { resource: "table", name: table };
  }
  const { partitionKey, rowKey } = scanner.keys();
  scanner.close();
  checkKey(partitionKey);
  checkKey(rowKey);
  return { resource: "entity", name, partitionKey, rowKey };
}

/** An endpoint that already names a table is the usual cause. */
function locateBelowTable(path: string): TableLocation {
  const table = /^\/([^/$(]+)\/[^/$(][^/]*\/?$/.exec(path)?.[1];
  if (table === undefined) throw refuseSegments(path);
  return { resource: "below table", name: table };
}

/** Ours: no table's name begins with an underscore. */
const OWN_PREFIX = "_rowhouse/";

function locateOwn(path: string): TableLocation {
  const [, table] = /^\/_rowhouse\/statistics\/([^/]+)\/?$/.exec(path) ?? [];
  if (table !== undefined) return { resource: "statistics", name: table };
  const [, name] = /^\/_rowhouse\/indexes(?:\/([^/]*))?\/?$/.exec(path) ?? [undefined, null];
  if (name === null) throw new ServiceError("InvalidUri");
  return name ? { resource: "index", name } : { resource: "indexes", name: "" };
}

function refuseSegments(path: string): ServiceError {
  // `$links`, `$count` and `$value` are OData paths that clients may try; the service has none of them.
  return new ServiceError(path.includes("/$") ? "NotImplemented" : "InvalidUri");
}

function checkKey(key: string): void {
  if (key.length > LIMITS.keyLengthMax) throw new ServiceError("PropertyValueTooLarge");
  for (let i = 0; i < key.length; i++) {
    const unit = key.charCodeAt(i);
    if (unit === 0x2f || unit === 0x5c) throw syntaxError();
    if (unit < 0x20 || unit === 0x23 || unit === 0x3f || (unit >= 0x7f && unit <= 0x9f)) {
      throw new ServiceError("OutOfRangeInput");
    }
  }
}

function syntaxError(): ServiceError {
  return new ServiceError("InvalidInput", { message: ERROR_TEXTS.keySyntaxInUrl });
}

/** Parses OData literals and key pairs in a decoded path. */
class KeyScanner {
  readonly #text: string;
  #at: number;

  constructor(text: string, at: number) {
    this.#text = text;
    this.#at = at;
  }

  /** `PartitionKey='…',RowKey='…'`, in either order, with spaces where samples show them. */
  keys(): { partitionKey: string; rowKey: string } {
    const first = this.#pair();
    this.#spaces();
    if (!this.skip(",")) throw syntaxError();
    const second = this.#pair();
    if (first.name === "PartitionKey" && second.name === "RowKey") {
      return { partitionKey: first.value, rowKey: second.value };
    }
    if (first.name === "RowKey" && second.name === "PartitionKey") {
      return { partitionKey: second.value, rowKey: first.value };
    }
    throw syntaxError();
  }

  #pair(): { name: string; value: string } {
    this.#spaces();
    const equals = this.#text.indexOf("=", this.#at);
    if (equals < 0) throw syntaxError();
    const name = this.#text.slice(this.#at, equals).trimEnd();
    this.#at = equals + 1;
    return { name, value: this.literal() };
  }

  /** `'…'`, with doubled quotes read as one. */
  literal(): string {
    this.#spaces();
    if (!this.skip("'")) throw syntaxError();
    let value = "";
    for (;;) {
      const quote = this.#text.indexOf("'", this.#at);
      if (quote < 0) throw syntaxError();
      value += this.#text.slice(this.#at, quote);
      this.#at = quote + 1;
      if (!this.skip("'")) return value;
      value += "'";
    }
  }

  close(): void {
    this.#spaces();
    if (!this.skip(")")) throw syntaxError();
    this.expectEnd();
  }

  expectEnd(): void {
    const rest = this.#text.slice(this.#at);
    if (rest === "" || rest === "/") return;
    throw rest.startsWith("/") ? refuseSegments(rest) : syntaxError();
  }

  skip(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #spaces(): void {
    while (this.#text[this.#at] === " ") this.#at++;
  }
}
