import { secondsOfMicros, ticksWithinSecond, writeInstant } from "@rowhouse/protocol/date-time";
import { encodeJsonString } from "@rowhouse/protocol/json-string";
import { copyBytes } from "@rowhouse/protocol/json-value";
import { encodeName } from "@rowhouse/protocol/property-name";
import type { MetadataLevel } from "./negotiate.ts";
import type { RecordView } from "./record-view.ts";

interface Member {
  readonly kind: "PartitionKey" | "RowKey" | "Timestamp" | "property";
  /** The encoded name, with which to search the entity. */
  readonly name: Uint8Array;
  /** Written in place of a missing property; for keys and Timestamp, written before the value. */
  readonly text: Uint8Array;
}

/**
 * `$select`: the members to write, in the order named. A property that the entity lacks is written
 * as `null`; this is the only case of null in responses. Keys and Timestamp are written only if
 * named.
 */
export class Projection {
  readonly #members: readonly Member[];
  readonly #bare: boolean;
  /** Upper bound for the bytes written besides those copied from the record. */
  readonly bytesMax: number;

  constructor(select: readonly string[], level: MetadataLevel) {
    this.#bare = level === "nometadata";
    this.#members = select.map((name) => memberOf(name, level));
    this.bytesMax = this.#members.reduce((sum, { text }) => sum + text.length + VALUE_BYTES, 0);
  }

  /** Writes the members, each after a comma, and returns where they end. */
  write(out: Uint8Array, at: number, view: RecordView): number {
    let next = at;
    for (const member of this.#members) next = this.#writeMember(out, next, view, member);
    return next;
  }

  #writeMember(out: Uint8Array, at: number, view: RecordView, member: Member): number {
    const { record } = view;
    if (member.kind === "property") {
      const index = view.find(member.name);
      if (index >= 0) {
        const start = this.#bare ? view.bareAt(index) : view.startOf(index);
        return copyBytes(out, at, record, start, view.endOf(index));
      }
    }
    out.set(member.text, at);
    let next = at + member.text.length;
    switch (member.kind) {
      case "property":
        return next;
      case "PartitionKey":
        next = copyBytes(out, next, record, view.partitionKeyAt, view.rowKeyAt);
        break;
      case "RowKey":
        next = copyBytes(out, next, record, view.rowKeyAt, view.propertiesAt);
        break;
      case "Timestamp": {
        const micros = view.timestampMicros;
        next = writeInstant(out, next, secondsOfMicros(micros), ticksWithinSecond(micros));
      }
    }
    out[next] = QUOTE;
    return next + 1;
  }
}

function memberOf(name: string, level: MetadataLevel): Member {
  const encoded = encodeName(name);
  switch (name) {
    case "PartitionKey":
    case "RowKey":
      return { kind: name, name: encoded, text: encoder.encode(`,"${name}":"`) };
    case "Timestamp": {
      const annotation = level === "fullmetadata" ? ',"Timestamp@odata.type":"Edm.DateTime"' : "";
      return { kind: name, name: encoded, text: encoder.encode(`${annotation},"Timestamp":"`) };
    }
    default:
      return {
        kind: "property",
        name: encoded,
        text: encoder.encode(`,${encodeJsonString(name)}:null`),
      };
  }
}

/** The longest value not copied from the record: a Timestamp and its quote. */
const VALUE_BYTES = 32;
const QUOTE = 0x22;
const encoder = new TextEncoder();
