import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { AnyEntity, Database, Plan, Query } from "@rowhouse/patterns";
import { messageOf } from "../message-of.ts";
import { Library } from "./library.ts";

/** A query of the application, such as `(db) => db.open(Employee).range({ dept: "Sales" })`. */
export type DeclaredQuery = (database: Database) => Pick<Query<unknown, Plan>, "explain">;

/** The exports of a module of definitions: entities, and queries under the name `queries`. */
export interface Schema {
  readonly file: string;
  readonly library: Library;
  readonly entities: ReadonlyMap<string, AnyEntity>;
  readonly queries: ReadonlyMap<string, DeclaredQuery>;
}

/** The files to try if no module is named. */
const SCHEMA_FILES = ["schema.ts", "schema.js", "schema.mjs"];
export const SCHEMA_FILES_TEXT = "schema.ts, schema.js or schema.mjs";

/**
 * Imports the module, which runs it.
 * @throws Error if it does not exist, exports no entities, or exports two of one name; the library's
 *   invalid-definition passes through.
 */
export async function loadSchema(named: string | undefined): Promise<Schema> {
  const found = named ?? SCHEMA_FILES.find((name) => existsSync(name));
  if (found === undefined) {
    throw new Error(
      `There is no ${SCHEMA_FILES_TEXT} here: name the module that exports the definitions.`,
    );
  }
  const file = resolve(found);
  if (!existsSync(file)) throw new Error(`${found} does not exist.`);
  const exported = await importModule(file).catch((cause) => {
    // The library's message about a definition needs no addition.
    if (codeOf(cause) === "invalid-definition") throw cause;
    throw new Error(`${found} cannot be imported: ${messageOf(cause)}`, { cause });
  });
  const entities = entitiesOf(exported, found);
  if (entities.size === 0) throw new Error(`${found} exports no entities.`);
  return {
    file,
    library: new Library(dirname(file)),
    entities,
    queries: queriesOf(exported.queries),
  };
}

/** By name. Of two with one name, one would be ignored silently, and the other's index built or retired. */
function entitiesOf(exported: Record<string, unknown>, file: string): Map<string, AnyEntity> {
  const entities = new Map<string, AnyEntity>();
  for (const entity of Object.values(exported).filter(isEntity)) {
    const other = entities.get(entity.name) ?? entity;
    if (other !== entity) {
      const tables = `of ${other.table} and of ${entity.table}`;
      throw new Error(
        `${file} exports two entities "${entity.name}", ${tables}: export only one of them from this module.`,
      );
    }
    entities.set(entity.name, entity);
  }
  return entities;
}

async function importModule(file: string): Promise<Record<string, unknown>> {
  try {
    return await import(pathToFileURL(file).href);
  } catch (error) {
    const isTypeScript = codeOf(error) === "ERR_UNKNOWN_FILE_EXTENSION" && file.endsWith("ts");
    if (!isTypeScript) throw error;
    const remedy = 'name the compiled file, or set NODE_OPTIONS="--import tsx"';
    throw new Error(`Node ${process.version} does not load TypeScript: ${remedy}.`, {
      cause: error,
    });
  }
}

/** An entity, and one of its indexes or fields after a dot, as in `Employee.email`. */
export interface Target {
  readonly entity: AnyEntity;
  readonly part: string | undefined;
}

/** @throws Error that lists the entities. */
export function targetOf({ entities }: Schema, name: string): Target {
  const [entityName = "", part] = name.split(".");
  const entity = entities.get(entityName);
  if (!entity) {
    throw new Error(
      `There is no entity "${entityName}"; the module exports ${listOf(entities.keys())}.`,
    );
  }
  return { entity, part };
}

/** The named index, or all. @throws Error that lists the indexes. */
export function indexesOf({ entity, part }: Target): string[] {
  const names = Object.keys(entity.indexes);
  if (part === undefined) return names;
  if (names.includes(part)) return [part];
  throw new Error(`${entity.name} has no index "${part}"; it has ${listOf(names)}.`);
}

export function listOf(names: Iterable<string>): string {
  return [...names].join(", ") || "none";
}

export function codeOf(error: unknown): string | undefined {
  const isCoded = typeof error === "object" && error !== null && "code" in error;
  return isCoded ? String(error.code) : undefined;
}

function isEntity(value: unknown): value is AnyEntity {
  if (typeof value !== "object" || value === null) return false;
  return ["name", "table", "rows", "indexes", "followers"].every((name) => name in value);
}

function queriesOf(exported: unknown): Map<string, DeclaredQuery> {
  const entries = Object.entries(exported ?? {});
  const isFunction = (value: unknown): value is DeclaredQuery => typeof value === "function";
  return new Map(
    entries.flatMap(([name, value]) => (isFunction(value) ? [[name, value] as const] : [])),
  );
}
