import { parseDateTime } from "@rowhouse/protocol/date-time";
import { STRING } from "@rowhouse/protocol/edm";
import type { JsonProperty } from "@rowhouse/protocol/json-property";
import { copyBytes } from "@rowhouse/protocol/json-value";
import { encodeName } from "@rowhouse/protocol/property-name";
import { toBuffer } from "../../byte-views.ts";
import type { Entry, Key } from "../../engine/engine.ts";
import { BASE_PARTITION_KEY, BASE_ROW_KEY } from "../../query/indexes/index-definition.ts";
import { entryKey, type IndexValue } from "../../query/indexes/index-key.ts";
import type { KeyPosition } from "../../query/plan.ts";
import { encodeRecord, recordOf } from "../entity-record.ts";
import { RecordView } from "../record-view.ts";
import { entityKey, tablePrefix } from "../table-keys.ts";
import type { TableIndex } from "../table-value.ts";

/** An index as those who read and write its entries need it. */
export interface OpenIndex {
  readonly index: TableIndex;
  /** The prefix of the keys of the index table. */
  readonly prefix: Uint8Array;
  /** The names of its parts, as records are searched for them. */
  readonly names: readonly Uint8Array[];
}

export function openIndex(accountId: number, index: TableIndex): OpenIndex {
  return {
    index,
    prefix: tablePrefix(accountId, index.id),
    names: index.parts.map(({ property }) => encodeName(property)),
  };
}

/** An entry of an index: an ordinary entity, which names the entity that it stands for. */
export interface IndexEntry {
  readonly key: Key;
  /** The stored entity. Its Timestamp is that of the write it is part of. */
  readonly value: Uint8Array;
}

/**
 * The entry of an entity; undefined if the entity lacks the first property of the key. Nothing else decides about it: whoever
 * writes, builds, verifies or repairs an index asks here.
 */
export function entryOf(
  open: OpenIndex,
  record: Uint8Array,
  timestampMicros: number,
): IndexEntry | undefined {
  const view = entityView;
  view.reset(record);
  const places = placesIn(open, view);
  if (!places) return undefined;
  const base = { partitionKey: view.partitionKey, rowKey: view.rowKey };
  const values = places.map((place) => (place < 0 ? undefined : valueAt(view, place)));
  const { partitionKey, rowKey } = entryKey(open.index, base, values);
  const { partitionKeyAt, rowKeyAt, propertiesAt } = view;
  // The keys are copied as the record holds them: JSON text without its quotes.
  const baseBytes = propertiesAt - partitionKeyAt;
  let size = BASE_OPENING.length + BASE_MIDDLE.length + baseBytes + 1;
  for (const place of places) if (place >= 0) size += view.endOf(place) - view.startOf(place);
  const json = Buffer.allocUnsafe(size);
  const properties: JsonProperty[] = [];
  json.set(BASE_OPENING);
  let end = copyBytes(json, BASE_OPENING.length, record, partitionKeyAt, rowKeyAt);
  properties.push({ form: STRING, nameBytes: BASE_PARTITION_KEY.length, end: end + 1 });
  json.set(BASE_MIDDLE, end);
  end = copyBytes(json, end + BASE_MIDDLE.length, record, rowKeyAt, propertiesAt);
  json[end++] = QUOTE;
  properties.push({ form: STRING, nameBytes: BASE_ROW_KEY.length, end });
  for (const place of places) {
    if (place < 0) continue;
    end = copyBytes(json, end, record, view.startOf(place), view.endOf(place));
    properties.push({ form: view.form(place), nameBytes: view.nameBytes(place), end });
  }
  return {
    key: entityKey(open.prefix, partitionKey, rowKey),
    value: encodeRecord({ partitionKey, rowKey, json, properties }, timestampMicros),
  };
}

/** The values of an entity in the key of an index, one for each part; undefined if it has no entry. */
export function valuesOf(
  open: OpenIndex,
  record: Uint8Array,
): readonly (IndexValue | undefined)[] | undefined {
  const view = entityView;
  view.reset(record);
  const places = placesIn(open, view);
  return places?.map((place) => (place < 0 ? undefined : valueAt(view, place)));
}

/** What a write of an entity changes in its indexes. */
export interface EntryChanges {
  readonly puts: IndexEntry[];
  readonly deletes: Key[];
}

/**
 * Adds what changes when the record of an entity becomes another one; undefined stands for no entity. Both are whole
 * entities, never a patch: which entry there is depends on all parts of the key together.
 */
export function addEntryChanges(
  changes: EntryChanges,
  indexes: readonly OpenIndex[],
  before: Uint8Array | undefined,
  after: Uint8Array | undefined,
  timestampMicros: number,
): void {
  for (const open of indexes) {
    if (before && after && hasSameParts(open, before, after)) continue;
    const old = before && entryOf(open, before, timestampMicros);
    const entry = after && entryOf(open, after, timestampMicros);
    if (old && !(entry && isSameKey(old.key, entry.key))) changes.deletes.push(old.key);
    if (entry) changes.puts.push(entry);
  }
}

/** Compares stored bytes: most writes do not change most keys, and then nothing is encoded. */
function hasSameParts({ names }: OpenIndex, before: Uint8Array, after: Uint8Array): boolean {
  const old = otherView;
  const own = entityView;
  old.reset(before);
  own.reset(after);
  for (const name of names) {
    const a = old.find(name);
    const b = own.find(name);
    if (a < 0 && b < 0) {
      // Without the first part there is no entry, whatever the others are.
      if (name === names[0]) return true;
      continue;
    }
    if (a < 0 || b < 0 || old.form(a) !== own.form(b)) return false;
    const stored = toBuffer(before).subarray(old.startOf(a), old.endOf(a));
    if (!stored.equals(toBuffer(after).subarray(own.startOf(b), own.endOf(b)))) return false;
  }
  return true;
}

/** The entity that an entry stands for. */
export function baseOf(view: RecordView): KeyPosition {
  const partition = view.find(BASE_PARTITION_NAME, 0);
  const row = view.find(BASE_ROW_NAME, 1);
  if (partition < 0 || row < 0) throw new Error("An index entry names no entity.");
  return { partitionKey: view.text(partition), rowKey: view.text(row) };
}

/** Whether two entries are the same but for their Timestamps. */
export function isSameEntry(stored: Entry, entry: IndexEntry): boolean {
  const a = toBuffer(recordOf(stored));
  const b = toBuffer(entry.value);
  return (
    a.length === b.length &&
    a.subarray(0, TIMESTAMP_START).equals(b.subarray(0, TIMESTAMP_START)) &&
    a.subarray(TIMESTAMP_END).equals(b.subarray(TIMESTAMP_END))
  );
}

/** Where the parts are in the record, -1 for those that are missing. */
function placesIn({ names }: OpenIndex, view: RecordView): number[] | undefined {
  const places = names.map((name) => view.find(name));
  return places[0]! < 0 ? undefined : places;
}

function valueAt(view: RecordView, place: number): IndexValue {
  const type = view.typeOf(place);
  switch (type) {
    case "Edm.String":
    case "Edm.Guid":
      return { type, value: view.text(place) };
    case "Edm.Int32":
    case "Edm.Double":
      return { type, value: view.number(place) };
    case "Edm.Boolean":
      return { type, value: view.number(place) === 1 };
    case "Edm.Int64":
      return { type, value: view.bigint(place) };
    case "Edm.DateTime":
      return { type, value: parseDateTime(view.text(place))! };
    case "Edm.Binary":
      return { type, value: view.bytes(place) };
  }
}

function isSameKey(a: Key, b: Key): boolean {
  return Buffer.compare(a.partition, b.partition) === 0 && Buffer.compare(a.sort, b.sort) === 0;
}

/** Scratch: all of this is synchronous and never overlaps. */
const entityView = new RecordView();
const otherView = new RecordView();
const BASE_PARTITION_NAME = encodeName(BASE_PARTITION_KEY);
const BASE_ROW_NAME = encodeName(BASE_ROW_KEY);
const BASE_OPENING = Buffer.from(`,"${BASE_PARTITION_KEY}":"`);
const BASE_MIDDLE = Buffer.from(`","${BASE_ROW_KEY}":"`);
const QUOTE = 0x22;
/** Where a record holds its Timestamp; see `entity-record.ts`. */
const TIMESTAMP_START = 3;
const TIMESTAMP_END = 11;
