import type { EdmType } from "@rowhouse/protocol/edm";

/** A property's value as the server sent it: its text keeps every digit. */
export interface Cell {
  readonly type: EdmType;
  /** Of a string, its characters; of anything else, the canonical text. */
  readonly text: string;
  /** Characters of the whole value, if the gateway cut it. */
  readonly length?: number;
}

export interface Row {
  readonly partitionKey: string;
  readonly rowKey: string;
  /** By property, Timestamp included, keys not. */
  readonly cells: ReadonlyMap<string, Cell>;
}

/**
 * Reads entities from JSON with minimal metadata: a list, or one. JSON.parse would read `1.0` and `1` as the same number,
 * and round what has more than 15 digits.
 * @throws SyntaxError for what is not such JSON
 */
export function parseEntities(json: string): Row[] {
  const reader = new Reader(json);
  const rows: Row[] = [];
  const own = reader.entity((name) => {
    if (name !== "value" || !reader.take("[")) return false;
    if (reader.take("]")) return true;
    do rows.push(toRow(reader.entity(() => false)));
    while (reader.take(","));
    reader.expect("]");
    return true;
  });
  return own.has("PartitionKey") ? [toRow(own)] : rows;
}

/** A scalar of JSON: its source, or for a string, its characters. */
interface Scalar {
  readonly text: string;
  readonly isText: boolean;
}

function toRow(members: ReadonlyMap<string, Scalar>): Row {
  const cells = new Map<string, Cell>();
  for (const [name, { text, isText }] of members) {
    if (name === "PartitionKey" || name === "RowKey" || name.includes("@")) continue;
    if (name.startsWith("odata.")) continue;
    // A projection's answer for what an entity lacks.
    if (!isText && text === "null") continue;
    const type = members.get(`${name}@odata.type`)?.text ?? inferType(name, text, isText);
    const length = members.get(`${name}@rowhouse.length`)?.text;
    const cell = { type: type as EdmType, text };
    cells.set(name, length === undefined ? cell : { ...cell, length: Number(length) });
  }
  return {
    partitionKey: members.get("PartitionKey")?.text ?? "",
    rowKey: members.get("RowKey")?.text ?? "",
    cells,
  };
}

function inferType(name: string, text: string, isText: boolean): EdmType {
  if (name === "Timestamp") return "Edm.DateTime";
  if (isText) return "Edm.String";
  if (text === "true" || text === "false") return "Edm.Boolean";
  return /^-?\d+$/.test(text) ? "Edm.Int32" : "Edm.Double";
}

class Reader {
  readonly #json: string;
  #at = 0;

  constructor(json: string) {
    this.#json = json;
  }

  /** A flat object. `nested` reads a member that is not a scalar, or returns false. */
  entity(nested: (name: string) => boolean): Map<string, Scalar> {
    const members = new Map<string, Scalar>();
    this.expect("{");
    if (this.take("}")) return members;
    do {
      const name = this.#scalar().text;
      this.expect(":");
      if (!nested(name)) members.set(name, this.#scalar());
    } while (this.take(","));
    this.expect("}");
    return members;
  }

  take(mark: string): boolean {
    while (SPACE.test(this.#json.charAt(this.#at))) this.#at++;
    if (this.#json.charAt(this.#at) !== mark) return false;
    this.#at++;
    return true;
  }

  expect(mark: string): void {
    if (!this.take(mark)) throw new SyntaxError(`Expected ${mark} at ${this.#at} of the answer.`);
  }

  #scalar(): Scalar {
    while (SPACE.test(this.#json.charAt(this.#at))) this.#at++;
    const isText = this.#json.charAt(this.#at) === '"';
    const token = isText ? TEXT : OTHER;
    token.lastIndex = this.#at;
    const [source] = token.exec(this.#json) ?? [];
    if (source === undefined)
      throw new SyntaxError(`Expected a value at ${this.#at} of the answer.`);
    this.#at += source.length;
    if (!isText) return { text: source, isText };
    const text = source.includes("\\") ? (JSON.parse(source) as string) : source.slice(1, -1);
    return { text, isText };
  }
}

const SPACE = /[ \n\r\t]/;
const TEXT = /"[^"\\]*(?:\\.[^"\\]*)*"/y;
const OTHER = /-?\d[\d.eE+-]*|true|false|null/y;
