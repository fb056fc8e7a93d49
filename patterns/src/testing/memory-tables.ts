import { sizeOf } from "../model/entity-size.ts";
import { bytesOf, type EdmValue, type Properties } from "../ports/edm.ts";
import { and, type Filter } from "../ports/filter.ts";
import { matches } from "../ports/filter-match.ts";
import { PortError } from "../ports/port-error.ts";
import { type Profile, profileOf } from "../ports/profile.ts";
import type {
  EntityKey,
  Mutation,
  Page,
  ReadOptions,
  StoredEntity,
  TableNamePage,
  TableNameRange,
  TableQuery,
  TablesPort,
} from "../ports/tables.ts";
import type { Clock, Random } from "../store/clock.ts";

export interface MemoryTablesOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly profile?: Profile;
  /** The most entities on a page. The service may end a page early at any time, so correct code works with 1. */
  readonly pageEntitiesMax?: number;
  /** The share of pages that are empty but continue, from 0 to 1. */
  readonly emptyPageShare?: number;
  /** How long a deleted table's name stays taken. */
  readonly tableDeletionMs?: number;
}

const PAGE_ENTITIES_MAX = 1000;
const TRANSACTION_OPERATIONS_MAX = 100;
const CUSTOM_PROPERTIES_MAX = 252;
const PROPERTY_NAME_LENGTH_MAX = 255;
const ENTITY_BYTES_MAX = 1024 * 1024;
const STRING_LENGTH_MAX = 32_768;
const BINARY_BYTES_MAX = 65_536;
const KEY_LENGTH_MAX = 512;
const TABLE_DELETION_MS = 40_000;
const ILLEGAL_IN_KEYS = /[/\\#?\p{Cc}]/u;
const TABLE_NAME = /^[A-Za-z][A-Za-z0-9]{2,62}$/;

type Partition = Map<string, StoredEntity>;

interface Table {
  readonly name: string;
  readonly partitions: Map<string, Partition>;
}

/** A Table endpoint in memory that refuses what the service refuses, with the service's codes. */
export class MemoryTables implements TablesPort {
  readonly profile: Profile;
  readonly #options: MemoryTablesOptions;
  readonly #tables = new Map<string, Table>();
  readonly #deletedAtMs = new Map<string, number>();
  #lastTicks = 0n;

  constructor(options: MemoryTablesOptions) {
    this.#options = options;
    this.profile = options.profile ?? profileOf("rowhouse");
  }

  async get(
    table: string,
    key: EntityKey,
    options: ReadOptions = {},
  ): Promise<StoredEntity | undefined> {
    const found = this.#table(table).partitions.get(key.partitionKey)?.get(key.rowKey);
    return found && this.#answer(found, options.select);
  }

  async query(table: string, { filter, select, top, continuation }: TableQuery): Promise<Page> {
    const { partitions } = this.#table(table);
    if (top !== undefined && (top < 1 || top > PAGE_ENTITIES_MAX))
      throw refusal(400, "InvalidInput");
    const limit = Math.min(
      top ?? PAGE_ENTITIES_MAX,
      this.#options.pageEntitiesMax ?? PAGE_ENTITIES_MAX,
    );
    const isEmptyPage = this.#options.random() < (this.#options.emptyPageShare ?? 0);
    const entities: StoredEntity[] = [];
    const keys = filter && keysIn(filter);
    let inspected = 0;
    for (const entity of inOrder(partitions, filter)) {
      if (continuation && isBefore(entity, continuation)) continue;
      if (keys && !matches(keys, entity)) continue;
      if (filter && !matches(filter, entity)) {
        inspected++;
        continue;
      }
      if (isEmptyPage || entities.length === limit) {
        const { partitionKey, rowKey } = entity;
        return { entities, continuation: { partitionKey, rowKey }, inspected };
      }
      inspected++;
      entities.push(this.#answer(entity, select));
    }
    return { entities, inspected };
  }

  async commit(table: string, mutations: readonly Mutation[]): Promise<(string | undefined)[]> {
    const { partitions } = this.#table(table);
    this.#assertTransaction(mutations);
    const written = mutations.map((mutation, index) => {
      const current = partitions.get(mutation.partitionKey)?.get(mutation.rowKey);
      return this.#apply(mutation, current, index);
    });
    for (const [i, { partitionKey, rowKey }] of mutations.entries()) {
      const entity = written[i];
      const partition: Partition = partitions.get(partitionKey) ?? new Map();
      if (entity) partition.set(rowKey, entity);
      else partition.delete(rowKey);
      if (partition.size > 0) partitions.set(partitionKey, partition);
      else partitions.delete(partitionKey);
    }
    return written.map((entity) => entity?.etag);
  }

  async createTable(name: string): Promise<boolean> {
    if (!TABLE_NAME.test(name)) throw refusal(400, "InvalidResourceName");
    const id = name.toLowerCase();
    const deletedAtMs = this.#deletedAtMs.get(id) ?? Number.NEGATIVE_INFINITY;
    const heldMs = this.#options.tableDeletionMs ?? TABLE_DELETION_MS;
    if (this.#options.clock.now() - deletedAtMs < heldMs) throw refusal(409, "TableBeingDeleted");
    if (this.#tables.has(id)) return false;
    this.#tables.set(id, { name, partitions: new Map() });
    return true;
  }

  async deleteTable(name: string): Promise<boolean> {
    const id = name.toLowerCase();
    if (!this.#tables.delete(id)) return false;
    this.#deletedAtMs.set(id, this.#options.clock.now());
    return true;
  }

  async listTables({ from = "", to, continuation }: TableNameRange): Promise<TableNamePage> {
    const start = continuation ?? from;
    const limit = this.#options.pageEntitiesMax ?? PAGE_ENTITIES_MAX;
    const names = Array.from(this.#tables.values(), ({ name }) => name)
      .filter((name) => name >= start && (to === undefined || name < to))
      .sort();
    const next = names[limit];
    return { names: names.slice(0, limit), ...(next !== undefined && { continuation: next }) };
  }

  #table(name: string): Table {
    const table = this.#tables.get(name.toLowerCase());
    if (!table) throw refusal(404, "TableNotFound");
    return table;
  }

  #answer(entity: StoredEntity, select: readonly string[] | undefined): StoredEntity {
    const servedAtMs = this.#options.clock.now();
    if (!select) return { ...entity, servedAtMs };
    const properties = Object.fromEntries(
      Object.entries(entity.properties).filter(([name]) => select.includes(name)),
    );
    return { ...entity, servedAtMs, properties };
  }

  #assertTransaction(mutations: readonly Mutation[]): void {
    if (mutations.length === 0 || mutations.length > TRANSACTION_OPERATIONS_MAX) {
      throw refusal(400, "InvalidInput", mutations.length - 1);
    }
    const rows = new Set<string>();
    let bytes = 0;
    for (const [index, mutation] of mutations.entries()) {
      if (mutation.partitionKey !== mutations[0]!.partitionKey) {
        throw refusal(400, "CommandsInBatchActOnDifferentPartitions", index);
      }
      if (rows.has(mutation.rowKey)) throw refusal(400, "InvalidDuplicateRow", index);
      rows.add(mutation.rowKey);
      bytes += JSON.stringify(mutation).length;
    }
    if (bytes > this.profile.transactionBytesMax) throw refusal(413, "RequestBodyTooLarge");
  }

  /** The entity after the mutation; undefined when it is deleted. */
  #apply(
    mutation: Mutation,
    current: StoredEntity | undefined,
    index: number,
  ): StoredEntity | undefined {
    const { partitionKey, rowKey } = mutation;
    if (mutation.kind === "insert" && current) throw refusal(409, "EntityAlreadyExists", index);
    if ("ifMatch" in mutation) {
      if (!current) throw refusal(404, "ResourceNotFound", index);
      const { ifMatch } = mutation;
      if (ifMatch !== "*" && !ETAG.test(ifMatch)) throw refusal(400, "InvalidInput", index);
      if (ifMatch !== "*" && ifMatch !== current.etag)
        throw refusal(412, "UpdateConditionNotSatisfied", index);
    }
    if (mutation.kind === "delete") return undefined;
    const merges = mutation.kind === "merge" || mutation.kind === "insertOrMerge";
    const properties = merges
      ? { ...current?.properties, ...mutation.properties }
      : mutation.properties;
    assertEntity({ partitionKey, rowKey }, properties, this.profile, index);
    const timestamp = this.#nextTimestamp();
    const etag = `W/"datetime'${encodeURIComponent(timestamp)}'"`;
    return { partitionKey, rowKey, timestamp, etag, properties: { ...properties } };
  }

  /** In steps of 100 ns and never repeated, as the service's ETags require. */
  #nextTimestamp(): string {
    const ticks = BigInt(this.#options.clock.now()) * 10_000n;
    this.#lastTicks = ticks > this.#lastTicks ? ticks : this.#lastTicks + 1n;
    const ms = new Date(Number(this.#lastTicks / 10_000n)).toISOString().slice(0, -1);
    return `${ms}${String(this.#lastTicks % 10_000n).padStart(4, "0")}Z`;
  }
}

const ETAG = /^W\/"datetime'.*'"$/;

function* inOrder(
  partitions: ReadonlyMap<string, Partition>,
  filter: Filter | undefined,
): Generator<StoredEntity> {
  const only = filter && partitionOf(filter);
  const keys = only === undefined ? [...partitions.keys()].sort() : [only];
  for (const key of keys) {
    const partition = partitions.get(key);
    for (const rowKey of [...(partition?.keys() ?? [])].sort()) yield partition!.get(rowKey)!;
  }
}

/** A filter's conditions on keys: the rows that they do not exclude are read. */
function keysIn(filter: Filter): Filter | undefined {
  if (filter.kind === "and") return and(keysIn(filter.left), keysIn(filter.right));
  const isKey = filter.kind === "compare" && ["PartitionKey", "RowKey"].includes(filter.property);
  return isKey ? filter : undefined;
}

/** The one partition that a filter allows, so that a large table is not walked for it. */
function partitionOf(filter: Filter): string | undefined {
  if (filter.kind === "and") return partitionOf(filter.left) ?? partitionOf(filter.right);
  const isPartition =
    filter.kind === "compare" && filter.property === "PartitionKey" && filter.comparison === "eq";
  return isPartition ? String(filter.value.value) : undefined;
}

function isBefore(
  entity: EntityKey,
  { partitionKey, rowKey = "" }: { partitionKey: string; rowKey?: string },
): boolean {
  if (entity.partitionKey !== partitionKey) return entity.partitionKey < partitionKey;
  return entity.rowKey < rowKey;
}

function assertEntity(
  key: EntityKey,
  properties: Properties,
  profile: Profile,
  index: number,
): void {
  for (const [text, max] of [
    [key.partitionKey, KEY_LENGTH_MAX],
    [key.rowKey, profile.rowKeyLengthMax],
  ] as const) {
    if (ILLEGAL_IN_KEYS.test(text)) throw refusal(400, "OutOfRangeInput", index);
    if (text.length > max) throw refusal(400, "KeyValueTooLarge", index);
  }
  const names = Object.keys(properties);
  if (names.length > CUSTOM_PROPERTIES_MAX) throw refusal(400, "TooManyProperties", index);
  for (const name of names) {
    if (name.length > PROPERTY_NAME_LENGTH_MAX) throw refusal(400, "PropertyNameTooLong", index);
    if (
      !/^[\p{L}_][\p{L}\p{Nd}_]*$/u.test(name) ||
      RESERVED.test(name) ||
      (profile.name === "cosmos" && RESERVED_IN_COSMOS.test(name))
    ) {
      throw refusal(400, "PropertyNameInvalid", index);
    }
    assertValue(properties[name]!, index);
  }
  if (sizeOf(key, properties) > ENTITY_BYTES_MAX) throw refusal(400, "EntityTooLarge", index);
}

const RESERVED = /^(PartitionKey|RowKey|Timestamp)$/i;
const RESERVED_IN_COSMOS = /^(id|rid|etag|ResourceId)$/i;

function assertValue({ type, value }: EdmValue, index: number): void {
  const tooLarge =
    (type === "String" && String(value).length > STRING_LENGTH_MAX) ||
    (type === "Binary" && bytesOf(String(value)).length > BINARY_BYTES_MAX);
  if (tooLarge) throw refusal(400, "PropertyValueTooLarge", index);
  const outOfRange =
    (type === "Int32" && (Number(value) | 0) !== Number(value)) ||
    (type === "DateTime" && String(value) < "1601-01-01");
  if (outOfRange)
    throw refusal(400, type === "DateTime" ? "OutOfRangeInput" : "InvalidInput", index);
}

function refusal(status: number, code: string, index = 0): PortError {
  return new PortError(`The service answers ${status} ${code}.`, { status, code, index });
}
