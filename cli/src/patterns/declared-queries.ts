import type { Database, Explanation } from "@rowhouse/patterns";
import { messageOf } from "../message-of.ts";
import type { Finding } from "./finding.ts";
import { kindOf, optionsOf } from "./record.ts";
import type { Schema } from "./schema.ts";

export interface ExplainedQuery {
  readonly name: string;
  readonly explanation: Explanation;
  /** The indexes that it uses, such as `Employee.email`. */
  readonly indexes: readonly string[];
}

/** Explains the queries of a schema, without running them. */
export async function explainQueries(schema: Schema): Promise<ExplainedQuery[]> {
  const { connect } = await schema.library.load("@rowhouse/patterns");
  const { memory } = await schema.library.load("@rowhouse/patterns/testing");
  return Array.from(schema.queries, ([name, query]) => {
    const used = new Set<string>();
    const explanation = explained(name, () =>
      query(recordingIndexes(connect(memory()), used)).explain(),
    );
    return { name, explanation, indexes: [...used] };
  });
}

/** @throws Error that names the query if it fails, or if the function returns something else. */
function explained(name: string, explain: () => Explanation): Explanation {
  try {
    return explain();
  } catch (cause) {
    throw new Error(`queries.${name} cannot be explained: ${messageOf(cause)}`, { cause });
  }
}

/** Wraps the database so that every index accessed through `by` is added to `used`. */
function recordingIndexes(database: Database, used: Set<string>): Database {
  const open: Database["open"] = (definition) => {
    const opened = database.open(definition);
    const { name } = definition as { readonly name?: string };
    if (typeof opened !== "object" || opened === null || !("by" in opened)) return opened;
    const by = new Proxy(Object(opened.by), {
      get(target, index) {
        used.add(`${name}.${String(index)}`);
        return Reflect.get(target, index);
      },
    });
    return new Proxy(opened, {
      get(target, member) {
        if (member === "by") return by;
        const value: unknown = Reflect.get(target, member, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  };
  return new Proxy(database, {
    get: (target, member) =>
      member === "open" ? open : (Reflect.get(target, member, target) as unknown),
  });
}

/** Finds queries that cost more than they seem to, and indexes that no query uses. */
export function lintQueries(
  { entities, queries }: Schema,
  explained: readonly ExplainedQuery[],
): Finding[] {
  // Without declared queries, every index would seem unused.
  if (queries.size === 0) return [];
  const findings: Finding[] = [];
  for (const { name, explanation } of explained) {
    if (explanation.notes.some((note) => note.startsWith("each row costs a point read"))) {
      findings.push({
        id: "copy-lacks-fields",
        level: "warning",
        where: `queries.${name}`,
        message: `${explanation.requests} requests: the entries lack fields that it returns`,
        remedy: "add the fields to the index's copy, or select fewer.",
      });
    }
  }
  const used = new Set(explained.flatMap(({ indexes }) => indexes));
  for (const entity of entities.values()) {
    for (const [name, index] of Object.entries(entity.indexes)) {
      const where = `${entity.name}.${name}`;
      // Declared queries cannot read lists. A unique index pays by refusing duplicates.
      const isList = kindOf(index).endsWith("list");
      if (used.has(where) || isList || optionsOf(index).unique === true) continue;
      const message = "no declared query uses it, and every write pays for it";
      const remedy = "retire it, or declare the query.";
      findings.push({ id: "unused-index", level: "warning", where, message, remedy });
    }
  }
  return findings;
}
