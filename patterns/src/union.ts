import type { EntityDefinition, Infer } from "./entities/entity.ts";
import { definitionRefused, tableError, validationFailed } from "./errors.ts";
import type { KeyDeclaration } from "./keys/key.ts";
import type { KeyValues } from "./keys/key-shape.ts";
import { assertBinds, type Fields, type Row } from "./model/entity-rows.ts";
import type { AnyEntity, Indexes } from "./model/follower.ts";
import type { KeyEquality } from "./model/key-query.ts";
import { type Openable, openable } from "./model/openable.ts";
import type { Properties } from "./ports/edm.ts";
import { text } from "./ports/edm.ts";
import { isRefusal } from "./ports/port-error.ts";
import type { StoredEntity } from "./ports/tables.ts";
import type { Query } from "./query/query.ts";
import { type QueryRun, type QuerySource, queryRun } from "./query/query-run.ts";
import type { Session } from "./store/session.ts";
import { tokensAfter, tokensOf, WRITE_TOKENS } from "./store/write-token.ts";

type AnyDefinition = AnyEntity & { readonly infer: unknown };

type KindOf<D> =
  D extends EntityDefinition<infer Name, infer F, KeyDeclaration, KeyDeclaration, Indexes>
    ? Infer<F> & { readonly kind: Name }
    : never;

type PartitionOf<D> =
  D extends EntityDefinition<string, infer F, infer P, KeyDeclaration, Indexes>
    ? F extends Fields
      ? KeyEquality<P>
      : never
    : never;

/** A stored row that none of the definitions knows. Index entries are among them. */
export interface UnknownRow {
  readonly kind: "unknown";
  readonly raw: StoredEntity;
}

export interface Union<D extends readonly AnyDefinition[]> {
  /** All rows of a partition, of any kind, in key order. */
  range(partition: PartitionOf<D[0]>): Query<KindOf<D[number]> | UnknownRow, "range">;
  scan(): Query<KindOf<D[number]> | UnknownRow, "table-scan">;
  /**
   * Changes properties of a row that no definition knows, if it has the property `expected` and is unchanged
   * since it was read. @throws validation-failed, conflict. 1 R, 1 E.
   */
  mergeUnknown(row: UnknownRow, properties: Properties, expected: string): Promise<void>;
}

/**
 * Entities of several definitions in one table, told apart by `kind`. The partition is named by the first
 * definition's partition key.
 */
export function union<const D extends readonly AnyDefinition[]>(
  ...definitions: D
): Openable<Union<D>> {
  const [first] = definitions;
  const message = first ? problemOf(definitions) : "is empty";
  if (!first || message) {
    throw definitionRefused("The union", "definitions", message ?? "");
  }
  return openable([first.table], (session) => new OpenUnion(session, definitions));
}

/** Narrows a row to the entity of one definition. */
export function is<R extends { readonly kind: string }, const Name extends R["kind"]>(
  row: R,
  { name }: { readonly name: Name },
): row is Extract<R, { readonly kind: Name }> {
  return row.kind === name;
}

function problemOf(definitions: readonly AnyEntity[]): string | undefined {
  const names = definitions.map(({ name }) => name);
  if (new Set([...names, "unknown"]).size <= names.length) return "needs unique names";
  if (new Set(definitions.map(({ table }) => table)).size > 1) return "spans several tables";
  const withKind = definitions.find(({ rows }) => "kind" in rows.fields || "raw" in rows.fields);
  return withKind && `cannot include ${withKind.name}: it has a field "kind" or "raw"`;
}

/** Decodes a row by the definition that it belongs to. */
function decodeKind(definitions: readonly AnyEntity[], stored: StoredEntity): Row {
  for (const { name, rows } of definitions) {
    const tag = stored.properties[rows.typeProperty];
    const row = tag && rows.decode(stored);
    if (row) return Object.assign(row, { kind: name });
  }
  return { kind: "unknown", raw: stored, etag: stored.etag };
}

class OpenUnion {
  readonly #session: Session;
  readonly #definitions: readonly AnyEntity[];
  readonly #first: AnyEntity;

  constructor(session: Session, definitions: readonly AnyEntity[]) {
    this.#session = session;
    this.#definitions = definitions;
    this.#first = definitions[0]!;
  }

  range(partition: KeyValues): QueryRun {
    const { rows } = this.#first;
    const partitionKey = rows.partitionKey(partition);
    assertBinds(partition, rows.partition);
    return queryRun(this.#source(), { partitionKey, range: {} });
  }

  scan(): QueryRun {
    return queryRun(this.#source(), { range: {} });
  }

  async mergeUnknown({ raw }: UnknownRow, properties: Properties, expected: string): Promise<void> {
    if (!(expected in raw.properties)) {
      throw validationFailed(raw.rowKey, expected, "the row has no such property");
    }
    const { partitionKey, rowKey, etag } = raw;
    const tokens = text(tokensAfter(this.#session.writeToken(), tokensOf(raw.properties)));
    const change = { ...properties, [WRITE_TOKENS]: tokens };
    const key = { partitionKey, rowKey };
    const merge = { kind: "merge", ...key, ifMatch: etag, properties: change } as const;
    try {
      await this.#session.tables.commit(this.#first.table, [merge]);
    } catch (cause) {
      if (!isRefusal(cause, 404, 412)) throw cause;
      const message = `${rowKey} changed since it was read.`;
      throw tableError("conflict", message, { key: rowKey }, { cause });
    }
  }

  #source(): QuerySource {
    const all = this.#definitions;
    return {
      session: this.#session,
      table: this.#first.table,
      fields: Object.assign({}, ...all.map(({ rows }) => rows.fields)),
      notComparable: (field) => all.map(({ rows }) => rows.notComparable(field)).find(Boolean),
      projection: (fields) => {
        const selects = all.map(({ rows }) => rows.selectFor(fields));
        return selects.includes(undefined) ? undefined : ([...new Set(selects.flat())] as string[]);
      },
      decode: (stored) => decodeKind(all, stored),
    };
  }
}
