import type { HttpAnswer } from "./http-answer.ts";
import type { TableWire } from "./table-wire.ts";

export const metadata = (level: string) => ({ Accept: `application/json;odata=${level}` });
export const NOMETADATA = metadata("nometadata");
export const NO_CONTENT = { Prefer: "return-no-content" };
export const ANY = { "If-Match": "*" };

export interface Keys {
  readonly PartitionKey: string;
  readonly RowKey: string;
}

/** Requests to the entities of one table. */
export class EntityRequests {
  readonly #wire: TableWire;
  readonly #table: string;
  #rows = 0;

  constructor(wire: TableWire, table: string) {
    this.#wire = wire;
    this.#table = table;
  }

  /** New keys. */
  fresh(): Keys {
    return { PartitionKey: "p", RowKey: `row${this.#rows++}` };
  }

  at({ PartitionKey, RowKey }: Keys): string {
    return `/${this.#table}(PartitionKey='${PartitionKey}',RowKey='${RowKey}')`;
  }

  insert(body: object, headers: Record<string, string | undefined> = {}): Promise<HttpAnswer> {
    return this.#wire.send("POST", `/${this.#table}`, { body, headers });
  }

  insertText(body: string, headers: Record<string, string> = {}): Promise<HttpAnswer> {
    return this.#wire.send("POST", `/${this.#table}`, {
      body,
      headers: { "Content-Type": "application/json", ...headers },
    });
  }

  /** The custom properties of an entity. */
  async custom(keys: Keys): Promise<Record<string, unknown>> {
    const answer = await this.#wire.send("GET", this.at(keys), { headers: NOMETADATA });
    const {
      PartitionKey: _,
      RowKey: __,
      Timestamp: ___,
      ...rest
    } = answer.json() as Record<string, unknown>;
    return rest;
  }
}

export function timestampOf(etag: string): string {
  return decodeURIComponent(/datetime'([^']+)'/.exec(etag)![1]!);
}
