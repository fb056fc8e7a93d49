import { decodeEntity } from "@rowhouse/protocol/entity-json";
import { withoutEtag } from "./raw-entity.ts";
import { bothFilters, literal, readPage } from "./read-table.ts";
import type { TableConnection } from "./table-endpoint.ts";

/** The keys of a range, as a filter; undefined for a whole table. */
export type KeyRangeFilter = string | undefined;

/** A shared beginning longer than that is not looked into: the table is read as one range. */
const SHARED_CHARACTERS_MAX = 256;

/**
 * Divides a table into about `count` ranges that can be read side by side, by asking for the first key behind a
 * guess: an endpoint cannot be asked for its last key or its middle. Ranges are even where the first character
 * that differs is spread evenly; a table of one partition is divided by its row keys.
 */
export async function divideTable(
  connection: TableConnection,
  table: string,
  where: string | undefined,
  count: number,
): Promise<KeyRangeFilter[]> {
  if (count < 2) return [undefined];
  const search = { connection, table, where };
  const first = await firstKeys(search, undefined);
  if (first === undefined) return [undefined];
  const partitions = await boundaries(search, "PartitionKey", first.partitionKey, count);
  if (partitions.length > 0) return rangesOf("PartitionKey", partitions);
  const only = `PartitionKey eq ${literal(first.partitionKey)}`;
  if ((await firstKeys(search, `PartitionKey gt ${literal(first.partitionKey)}`)) !== undefined) {
    // Partitions that no boundary divides: keys that share too much.
    return [undefined];
  }
  const inside = { ...search, where: bothFilters(only, where) };
  const rows = await boundaries(inside, "RowKey", first.rowKey, count);
  return rangesOf("RowKey", rows).map((range) => bothFilters(only, range));
}

interface Search {
  readonly connection: TableConnection;
  readonly table: string;
  readonly where: string | undefined;
}

type KeyName = "PartitionKey" | "RowKey";

/** Keys between which about `count` ranges lie: all above `smallest`, which exists, and below `end`; in order. */
async function boundaries(
  search: Search,
  name: KeyName,
  smallest: string,
  count: number,
  end?: string,
): Promise<string[]> {
  const below = end === undefined ? undefined : `${name} lt ${literal(end)}`;
  const firstFrom = (from: string) =>
    firstKeys(search, bothFilters(`${name} ge ${literal(from)}`, below));
  const exists = async (from: string) => (await firstFrom(from)) !== undefined;
  // The first position at which keys differ: nothing lies behind what the smallest key begins with.
  let at = 0;
  while (at < smallest.length && at < SHARED_CHARACTERS_MAX) {
    if (await exists(smallest.slice(0, at) + next(smallest.charCodeAt(at)))) break;
    at++;
  }
  if (at === smallest.length || at === SHARED_CHARACTERS_MAX) return [];
  const prefix = smallest.slice(0, at);
  const begin = (code: number) => prefix + String.fromCharCode(code);
  const lowest = smallest.charCodeAt(at);
  const highest = await largestThat(lowest + 1, LAST_BEFORE_SURROGATES, (code) =>
    exists(begin(code)),
  );
  const characters = highest - lowest + 1;
  const found: string[] = [];
  if (characters >= count) {
    for (let i = 1; i < count; i++)
      found.push(begin(lowest + Math.round((i * characters) / count)));
    return found;
  }
  // Few characters, such as digits: each is divided again.
  const each = Math.ceil(count / characters);
  for (let code = lowest; code <= highest; code++) {
    if (code > lowest) found.push(begin(code));
    const first = code === lowest ? smallest : (await firstFrom(begin(code)))?.[keyOf[name]];
    if (each < 2 || !first?.startsWith(begin(code))) continue;
    found.push(...(await boundaries(search, name, first, each, begin(code + 1))));
  }
  return found;
}

const keyOf = { PartitionKey: "partitionKey", RowKey: "rowKey" } as const;

/** The largest number for which `holds`, which holds for `low`. */
async function largestThat(
  low: number,
  high: number,
  holds: (value: number) => Promise<boolean>,
): Promise<number> {
  let known = low;
  let beyond = high + 1;
  // Keys are mostly ASCII, so the first guesses are close.
  for (let guess = 0x7f; beyond - known > 1; guess = Math.floor((known + beyond) / 2)) {
    const middle = guess > known && guess < beyond ? guess : Math.floor((known + beyond) / 2);
    if (await holds(middle)) known = middle;
    else beyond = middle;
  }
  return known;
}

async function firstKeys({ connection, table, where }: Search, filter: string | undefined) {
  let from: { partitionKey: string; rowKey: string } | undefined;
  do {
    const page = await readPage(connection, {
      table,
      filter: bothFilters(filter, where),
      select: ["PartitionKey", "RowKey"],
      top: 1,
      from,
    });
    const [entity] = page.entities;
    if (entity !== undefined) return decodeEntity(withoutEtag(entity));
    from = page.next;
  } while (from !== undefined);
  return undefined;
}

function rangesOf(name: KeyName, between: readonly string[]): KeyRangeFilter[] {
  const from = (key: string) => `${name} ge ${literal(key)}`;
  const to = (key: string) => `${name} lt ${literal(key)}`;
  if (between.length === 0) return [undefined];
  return [
    to(between[0]!),
    ...between.slice(1).map((key, i) => bothFilters(from(between[i]!), to(key))),
    from(between.at(-1)!),
  ];
}

function next(code: number): string {
  return String.fromCharCode(Math.min(code + 1, 0xffff));
}

/** Halves of surrogate pairs cannot stand alone in a URL. */
const LAST_BEFORE_SURROGATES = 0xd7ff;
