import { readAt } from "./entities/write.ts";
import { validationFailed } from "./errors.ts";
import { fnv1a128 } from "./keys/hash.ts";
import { type KeyDeclaration, type KeyPart, k, Segment } from "./keys/key.ts";
import { type KeyValues, namedTwice } from "./keys/key-shape.ts";
import { encodeText } from "./keys/text.ts";
import { missing } from "./missing.ts";
import { describeSegment } from "./model/declared-index.ts";
import { project, selected } from "./model/entity-rows.ts";
import { BASE_PARTITION_KEY, BASE_ROW_KEY } from "./model/entry.ts";
import type { AnyEntity, FollowerContext } from "./model/follower.ts";
import { Index, type IndexKind, type OpenIndex } from "./model/follower.ts";
import type { FieldNames, KeyEquality, RowQuery } from "./model/key-query.ts";
import type { Query } from "./query/query.ts";
import { type QuerySource, queryRun } from "./query/query-run.ts";

type Optional = KeyDeclaration | undefined;

export interface ServerOptions<P extends Optional, R extends KeyDeclaration> {
  /** The name of the index, as in `rowhouse index create`. */
  readonly table: string;
  /** The first property of its key. Default: the entity's partition, for a key that begins with `PartitionKey`. */
  readonly partition?: P;
  /** The properties that follow. Default: none. */
  readonly row?: R;
}

interface ServerKind<P extends Optional, R extends KeyDeclaration> extends IndexKind {
  readonly fields: FieldNames<P> | FieldNames<R>;
  readonly api: ServerRange<this["entity"], P extends undefined ? this["partition"] : P, R>;
}

interface ServerRange<T, P, R extends KeyDeclaration> {
  range(query: KeyEquality<P> & RowQuery<R>): Query<T, "range">;
}

/**
 * Declares an index that a Rowhouse server keeps: this library reads it, and never writes or builds it. With the
 * codecs of `k` and `missing("last", …)` it reads what the server writes.
 */
export function serverIndex<
  const P extends Optional = undefined,
  const R extends KeyDeclaration = readonly [],
>(options: ServerOptions<P, R>): ServerIndex<P, R> {
  return new ServerIndex(options);
}

/** Characters of a segment before the server cuts it, in a partition key and in a row key. */
const PARTITION_TEXT_MAX = 200;
const ROW_TEXT_MAX = 100;
/** The end of a cut segment: `~~` and 32 digits of a hash. */
const CUT_LENGTH = 34;

/** What ends the key of every entry: the keys of its entity, in whatever form. */
const ENTITY = new Segment("entity", BASE_ROW_KEY, "text", { encode: String, decode: String });

export class ServerIndex<P extends Optional, R extends KeyDeclaration> extends Index<
  ServerKind<P, R>
> {
  /** Nothing is to be created here: the server refuses an index whose table exists. */
  override readonly tables: readonly string[] = [];
  override readonly isKeptByServer = true;
  readonly #parts: readonly KeyPart[];

  constructor({ table, partition, row }: ServerOptions<P, R>) {
    const first = partition && partsOf(partition).map((part) => cut(part, PARTITION_TEXT_MAX));
    const others = row ? partsOf(row).map((part) => cut(part, ROW_TEXT_MAX)) : [];
    super({}, { table, row: k.ordered(...others, ENTITY), ...(first && { partition: first }) });
    this.#parts = [...(partition ? partsOf(partition) : []), ...(row ? partsOf(row) : [])];
  }

  problems(entity: AnyEntity): string[] {
    const { rows } = entity;
    const { table, partition, row } = this.place(entity);
    const problems = [...namedTwice(partition, row)];
    if (table.toLowerCase() === entity.table.toLowerCase()) {
      problems.push("is a table of its own, which has the name of the index");
    }
    for (const part of this.#parts) {
      if (!(part instanceof Segment)) {
        problems.push(`has the literal "${part.literal}", which no index of a server has`);
        continue;
      }
      const { field, name, options } = part;
      if (!isWrittenByServers(part)) {
        problems.push(
          `has "${name}" in a form that no server writes: use k.str, int32, int64, double, bool, date, dateDesc or guid`,
        );
      }
      if (!rows.fields[field]) problems.push(`needs the field "${field}", which is not declared`);
      else if (rows.inKeys.has(field))
        problems.push(`has "${field}", which is in the entity's key and no property`);
      else if (
        rows.fields[field].isOptional &&
        !options.absent &&
        row.segments.some((each) => each.field === field)
      )
        problems.push(`has entities without "${field}": declare missing("last", …)`);
    }
    return problems;
  }

  follow(context: FollowerContext): OpenIndex {
    const place = this.place(context.entity);
    const source = sourceOf(context, place.table);
    const range = (query: KeyValues) => {
      for (const { name } of place.row.segments) assertBoundsFit(name, Object(query)[name]);
      return queryRun(source, selected(context.entity.rows, place, query));
    };
    return { api: { range }, prepare: () => ({}) };
  }
}

function sourceOf({ session, entity }: FollowerContext, table: string): QuerySource {
  const own = [BASE_PARTITION_KEY, BASE_ROW_KEY];
  return {
    session,
    table,
    fields: entity.rows.fields,
    notComparable: () => "is not compared on entries; filter the result, or query the entities",
    projection: () => own,
    decode: async ({ properties }, fields) => {
      const [partitionKey, rowKey] = own.map((name) => String(properties[name]?.value));
      const base = await readAt(
        { session, entity },
        { partitionKey: partitionKey!, rowKey: rowKey! },
      );
      return project(base?.row, fields);
    },
    surcharge: () => ({ perRow: 1, notes: ["each row costs a point read of its base"] }),
  };
}

function partsOf(key: KeyDeclaration): readonly KeyPart[] {
  return "parts" in key ? key.parts : key;
}

/** The same part, with values that are too long written as the server does. */
function cut(part: KeyPart, max: number): KeyPart {
  if (!(part instanceof Segment)) return part;
  const { name, field, form, options } = part;
  return new Segment<string, unknown>(name, field, form as "fixed", {
    ...options,
    encode(value, place) {
      const text = options.encode(value, place);
      return text.length > max ? `${text.slice(0, max - CUT_LENGTH)}~~${fnv1a128(text)}` : text;
    },
  });
}

/** Values that are cut have no order behind what is left of them. */
function assertBoundsFit(name: string, bounds: unknown): void {
  const max = ROW_TEXT_MAX - CUT_LENGTH;
  for (const bound of Object.values(Object(bounds))) {
    if (typeof bound !== "string" || encodeText(bound, PLACE).length <= max) continue;
    throw validationFailed("The key", name, `bounds of more than ${max} characters have no order`);
  }
}

const PLACE = { escapeUnderscore: false };

/** Whether a server writes the same text. */
function isWrittenByServers(segment: Segment): boolean {
  const { name } = segment;
  const written = JSON.stringify(describeSegment(segment));
  const codecs: readonly Segment[] = [
    ...[k.str(name), k.int32(name), k.int64(name), k.double(name), k.bool(name)],
    ...[k.date(name), k.dateDesc(name), k.guid(name)],
  ];
  return codecs.some((codec) =>
    [codec, missing("last", codec)].some(
      (each) => JSON.stringify(describeSegment(each)) === written,
    ),
  );
}
