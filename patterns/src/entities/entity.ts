import { type Issue, refused } from "../errors.ts";
import type { KeyDeclaration } from "../keys/key.ts";
import { keyProblems, namedTwice } from "../keys/key-shape.ts";
import { declaredIndex } from "../model/declared-index.ts";
import { EntityRows, type Fields, type RowsDeclaration } from "../model/entity-rows.ts";
import type { AnyEntity, CheckedIndexes, Follower, Indexes } from "../model/follower.ts";
import type { CheckedKey } from "../model/key-query.ts";
import type { Openable } from "../model/openable.ts";
import { assertTable, tableProblems } from "../model/storage-name.ts";
import type { DeclaredIndex, Session } from "../store/session.ts";
import { type KeyOf, openRepository, type Repository } from "./repository.ts";

type OptionalNames<F extends Fields> = {
  [Name in keyof F]: F[Name]["isOptional"] extends true ? Name : never;
}[keyof F];

/** The values an entity with these fields holds. */
export type Infer<F extends Fields> = {
  -readonly [Name in Exclude<keyof F, OptionalNames<F>>]: F[Name]["type"];
} & { -readonly [Name in OptionalNames<F>]?: F[Name]["type"] };

export interface EntityDeclaration<
  F extends Fields,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  I extends Indexes,
> extends RowsDeclaration {
  readonly fields: F;
  readonly key: {
    readonly partition: P & CheckedKey<P, Infer<F>>;
    readonly row: R & CheckedKey<R, Infer<F>>;
  };
  /** Default: the entity's name. Several definitions may share a table. */
  readonly table?: string;
  readonly indexes?: I & CheckedIndexes<I, Infer<F>>;
  /** Whatever else must change with the entity. */
  readonly followers?: Readonly<Record<string, Follower>>;
}

/** A checked declaration. It sends no request before it is opened. */
export class EntityDefinition<
  Name extends string,
  F extends Fields,
  P extends KeyDeclaration,
  R extends KeyDeclaration,
  I extends Indexes,
> implements AnyEntity, Openable<Repository<Infer<F>, P, R, I>>
{
  readonly name: Name;
  readonly table: string;
  readonly rows: EntityRows;
  readonly indexes: I;
  readonly followers: Readonly<Record<string, Follower>>;

  constructor(
    name: Name,
    table: string,
    rows: EntityRows,
    indexes: I,
    followers: Readonly<Record<string, Follower>>,
  ) {
    this.name = name;
    this.table = table;
    this.rows = rows;
    this.indexes = indexes;
    this.followers = { ...followers };
  }

  /** Adds a follower to what is opened from now on. One of the same name is replaced. */
  addFollower(name: string, follower: Follower): void {
    Object.assign(this.followers, { [name]: follower });
  }

  /** For the compiler only: `type Employee = typeof Employee.infer`. */
  declare readonly infer: Infer<F>;
  /** For the compiler only: `type EmployeeKey = typeof Employee.inferKey`, the key that `get` accepts. */
  declare readonly inferKey: KeyOf<P, R>;

  /** The same definition on another table. @throws invalid-definition for an illegal table name. */
  in(table: string): EntityDefinition<Name, F, P, R, I> {
    assertTable(this.name, table);
    return new EntityDefinition(this.name, table, this.rows, this.indexes, this.followers);
  }

  get tables(): readonly string[] {
    return [this.table, ...this.#all("tables")];
  }

  get queues(): readonly string[] {
    return this.#all("queues");
  }

  get containers(): readonly string[] {
    return this.#all("containers");
  }

  get declared(): readonly DeclaredIndex[] {
    const own = Object.keys(this.indexes).filter((name) => !this.indexes[name]!.isKeptByServer);
    return own.map((name) => declaredIndex(this, name));
  }

  #all(kind: "tables" | "queues" | "containers"): string[] {
    const followers = [...Object.values(this.indexes), ...Object.values(this.followers)];
    return followers.flatMap((follower) => follower[kind] ?? []);
  }

  open(session: Session): Repository<Infer<F>, P, R, I> {
    return openRepository<Infer<F>, P, R, I>(session, this);
  }
}

/**
 * Declares an entity: its fields, its keys and its indexes.
 * @throws invalid-definition for a declaration that would sort wrongly, exceed a limit or collide.
 */
export function entity<
  const Name extends string,
  const F extends Fields,
  const P extends KeyDeclaration,
  const R extends KeyDeclaration,
  const I extends Indexes = Readonly<Record<never, never>>,
>(name: Name, declaration: EntityDeclaration<F, P, R, I>): EntityDefinition<Name, F, P, R, I> {
  const indexes = declaration.indexes ?? ({} as I);
  const rows = new EntityRows(name, declaration);
  const definition = new EntityDefinition<Name, F, P, R, I>(
    name,
    declaration.table ?? name,
    rows,
    indexes,
    declaration.followers ?? {},
  );
  const issues = problemsOf(definition);
  if (issues.length > 0) throw refused("invalid-definition", name, issues);
  return definition;
}

const FIELDS_MAX = 248;
const RESERVED = ["partitionkey", "rowkey", "timestamp", "etag"];
const PROPERTY_NAME = /^[\p{L}_][\p{L}\p{Nd}_]{0,254}$/u;

function problemsOf(entity: AnyEntity & Pick<Openable<unknown>, "tables">): Issue[] {
  const issues: Issue[] = [];
  const { rows } = entity;
  const report = (path: string, ...messages: string[]) =>
    issues.push(...messages.map((message) => ({ path, message })));

  if (!/^\w+$/.test(entity.name)) report("name", "may have only letters, digits and _");
  for (const table of entity.tables) {
    report("table", ...tableProblems(table));
  }
  if (!Number.isInteger(rows.version) || rows.version < 1) report("version", "is not 1, 2, 3, …");

  const names = Object.keys(rows.fields);
  const stored = names.filter((name) => !rows.inKeys.has(name)).length;
  if (stored > FIELDS_MAX) {
    report("fields", `there are ${stored}; at most ${FIELDS_MAX} are allowed`);
  }
  const properties = names.map((name) => rows.propertyOf(name));
  for (const [i, property] of properties.entries()) {
    const path = `field "${names[i]}"`;
    if (!PROPERTY_NAME.test(property)) report(path, `has the illegal property name "${property}"`);
    if (
      RESERVED.includes(property.toLowerCase()) ||
      names[i] === "etag" ||
      // Every object inherits these names, even a row without the field.
      [names[i], property].some((name) => String(name) in {}) ||
      /^rh_/i.test(property)
    ) {
      report(
        path,
        `uses the reserved property name "${property}"; store it under another name with .as("…")`,
      );
    }
    if (properties.indexOf(property) !== i || property === rows.typeProperty)
      report(path, `property "${property}" is already in use`);
  }

  const shapes = [rows.partition, rows.row];
  report("key", ...keyProblems(...shapes), ...namedTwice(...shapes));
  for (const name of rows.keyFields) {
    const field = rows.fields[name];
    if (!field) report("key", `needs the field "${name}", which is not declared`);
    else if (field.isOptional) report("key", `needs the field "${name}", which is optional`);
  }

  for (const [name, follower] of [
    ...Object.entries(entity.indexes),
    ...Object.entries(entity.followers),
  ]) {
    report(name, ...follower.problems(entity, name));
  }
  return issues;
}
