import { tableError } from "../errors.ts";
import { type Properties, text } from "../ports/edm.ts";
import { writeOver } from "../ports/mutation.ts";
import { unlessRefused } from "../ports/port-error.ts";
import type { Deadline, EntityKey, StoredEntity } from "../ports/tables.ts";
import { commitIfCurrent } from "./commit-if-current.ts";
import type { Session } from "./session.ts";
import { tokensAfter, tokensOf, WRITE_TOKENS } from "./write-token.ts";

/** A value that can be stored between steps. */
export type Json =
  | string
  | number
  | boolean
  | null
  | undefined
  | readonly Json[]
  | { readonly [name: string]: Json };

/** A value as it was read, and what it takes to overwrite it. */
export interface Known<Value> {
  readonly value: Value;
  readonly etag: string;
  readonly tokens: string | undefined;
}

/** Where a row holds a value as JSON, written on condition of its ETag. */
export interface JsonRow<Value> {
  readonly session: Session;
  readonly table: string;
  readonly key: EntityKey;
  readonly property: string;
  /** For the compiler only. */
  readonly type?: Value;
}

export function jsonRow<Value>(
  session: Session,
  table: string,
  key: EntityKey,
  property: string,
): JsonRow<Value> {
  return { session, table, key, property };
}

/** Undefined when there is no row, or no table yet. */
export async function readJson<Value>(row: JsonRow<Value>): Promise<Known<Value> | undefined> {
  const { session, table, key, property } = row;
  const stored = await unlessRefused(session.tables.get(table, key), 404);
  return stored && knownIn(stored, property);
}

/** Undefined when another client wrote the row after `before` was read, or created it if `before` is undefined. */
export async function writeJson<Value>(
  { session, table, key, property }: JsonRow<Value>,
  value: Value,
  before: Known<unknown> | undefined,
  extra?: Properties,
  onLost?: (refusal: unknown) => void,
  options?: Deadline,
): Promise<Known<Value> | undefined> {
  const json = JSON.stringify(value);
  const tokens = tokensAfter(session.writeToken(), before?.tokens);
  const properties = { ...extra, [property]: text(json), [WRITE_TOKENS]: text(tokens) };
  const mutations = [writeOver(before, key, properties)];
  const written = await commitIfCurrent(session, table, mutations, options, onLost);
  // The value as a later read will return it, so that nothing works only until a crash.
  return written && { value: JSON.parse(json), etag: written[0] ?? "", tokens };
}

/** Like `writeJson`. @throws conflict, with this message, when another client wrote the row. */
export async function mustWriteJson<Value>(
  row: JsonRow<Value>,
  value: Value,
  before: Known<unknown> | undefined,
  message: string,
  extra?: Properties,
  options?: Deadline,
): Promise<Known<Value>> {
  const isLost = (cause: unknown) => {
    throw tableError("conflict", message, { key: row.key.rowKey }, { cause });
  };
  return (await writeJson(row, value, before, extra, isLost, options))!;
}

/** The value in a row that was read. */
export function knownIn<Value>({ properties, etag }: StoredEntity, property: string): Known<Value> {
  const value: Value = JSON.parse(String(properties[property]?.value));
  return { value, etag, tokens: tokensOf(properties) };
}
