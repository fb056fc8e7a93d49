import { secondsOfMicros, ticksWithinSecond, writeInstant } from "@rowhouse/protocol/date-time";
import { encodeJsonString } from "@rowhouse/protocol/json-string";
import { copyBytes } from "@rowhouse/protocol/json-value";
import { encodeName } from "@rowhouse/protocol/property-name";
import { append } from "./entity-head.ts";
import type { MetadataLevel } from "./negotiate.ts";
import type { RecordView } from "./record-view.ts";

interface Member {
  readonly kind: "PartitionKey" | "RowKey" | "Timestamp" | "property";
  /** The encoded name, with which to search the entity. */
  readonly name: Uint8Array;
  /** Written in place of a missing property; for keys and Timestamp, written before the value. */
  readonly text: Uint8Array;
  /** Where the property was last: entities of one table are mostly alike. */
  index: number;
}

/** The members that are part of every head, in its order. */
const HEAD_MEMBERS = ["PartitionKey", "RowKey", "Timestamp"];

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
  /** Whether the first members are those of the head, so that a head can be written in their place. */
  readonly beginsWithHead: boolean;

  constructor(select: readonly string[], level: MetadataLevel) {
    this.#bare = level === "nometadata";
    this.#members = select.map((name) => memberOf(name, level));
    this.bytesMax = this.#members.reduce((sum, { text }) => sum + text.length + VALUE_BYTES, 0);
    this.beginsWithHead = HEAD_MEMBERS.every((name, i) => select[i] === name);
  }

  /** Writes the members, each after a comma, and returns where they end. */
  write(out: Uint8Array, at: number, view: RecordView): number {
    return this.#writeFrom(0, out, at, view);
  }

  /** Writes the members after those of the head. */
  writeAfterHead(out: Uint8Array, at: number, view: RecordView): number {
    return this.#writeFrom(HEAD_MEMBERS.length, out, at, view);
  }

  /** Properties that are neighbors in the record too are copied in one run. */
  #writeFrom(first: number, out: Uint8Array, at: number, view: RecordView): number {
    const { record } = view;
    let next = at;
    let runStart = 0;
    let runEnd = 0;
    for (let i = first; i < this.#members.length; i++) {
      const member = this.#members[i]!;
      const index = member.kind === "property" ? view.find(member.name, member.index) : -1;
      if (index < 0) {
        next = copyBytes(out, next, record, runStart, runEnd);
        runStart = runEnd;
        next = writeOther(out, next, view, member);
        continue;
      }
      member.index = index;
      const start = this.#bare ? view.bareAt(index) : view.startOf(index);
      if (start !== runEnd) {
        next = copyBytes(out, next, record, runStart, runEnd);
        runStart = start;
      }
      runEnd = view.endOf(index);
    }
    return copyBytes(out, next, record, runStart, runEnd);
  }
}

/** Writes a key, the Timestamp, or the null of a property that is missing. */
function writeOther(out: Uint8Array, at: number, view: RecordView, member: Member): number {
  const { record } = view;
  let next = append(out, at, member.text);
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

function memberOf(name: string, level: MetadataLevel): Member {
  const encoded = encodeName(name);
  switch (name) {
    case "PartitionKey":
    case "RowKey":
      return { kind: name, name: encoded, text: encoder.encode(`,"${name}":"`), index: 0 };
    case "Timestamp": {
      const annotation = level === "fullmetadata" ? ',"Timestamp@odata.type":"Edm.DateTime"' : "";
      const text = encoder.encode(`${annotation},"Timestamp":"`);
      return { kind: name, name: encoded, text, index: 0 };
    }
    default:
      return {
        kind: "property",
        name: encoded,
        text: encoder.encode(`,${encodeJsonString(name)}:null`),
        index: 0,
      };
  }
}

/** The longest value not copied from the record: a Timestamp and its quote. */
const VALUE_BYTES = 32;
const QUOTE = 0x22;
const encoder = new TextEncoder();
