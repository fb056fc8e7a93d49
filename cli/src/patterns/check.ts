import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { compareEntities, compareNames } from "./compare.ts";
import { explainQueries, lintQueries } from "./declared-queries.ts";
import { describeFinding, type Finding } from "./finding.ts";
import { lintEntities } from "./lint.ts";
import { alignColumns, countOf, type Outcome } from "./outcome.ts";
import { type DefinitionsRecord, hashOf, recordOf } from "./record.ts";
import { codeOf, loadSchema, type Schema } from "./schema.ts";

export interface CheckOptions {
  /** Record the current definitions. */
  readonly write?: true;
  /** Count warnings as findings, too. */
  readonly strict?: true;
}

/** Checks definitions against the design guide, and against the rows stored under the recorded ones. */
export async function check(
  file: string | undefined,
  { write, strict }: CheckOptions,
): Promise<Outcome> {
  let schema: Schema;
  try {
    schema = await loadSchema(file);
  } catch (error) {
    if (codeOf(error) !== "invalid-definition") throw error;
    return refused(error);
  }
  const entities = [...schema.entities.values()];
  const record: DefinitionsRecord = {
    format: 1,
    entities: Object.fromEntries(entities.map((entity) => [entity.name, recordOf(entity)])),
  };
  const recordFile = recordFileOf(schema.file);
  const recorded = readRecord(recordFile);
  const findings = [
    ...lintEntities(entities),
    ...lintQueries(schema, await explainQueries(schema)),
    ...changesBetween(recorded, record, schema),
  ];
  if (write) writeFileSync(recordFile, `${JSON.stringify(record, null, 2)}\n`);
  const definitions = hashesOf(record);
  const unsafe = findings.filter(({ level, id }) =>
    // With --write, the changes are accepted.
    level === "error" ? !(write && CHANGES.has(id)) : strict,
  );
  const count = (wanted: Finding["level"]) =>
    countOf(findings.filter(({ level }) => level === wanted).length, wanted);
  const counts = `${count("error")}, ${count("warning")}`;
  return {
    lines: [
      ...describeHashes(definitions),
      "",
      ...findings.map(describeFinding),
      write ? `${counts}; recorded in ${basename(recordFile)}` : counts,
    ],
    json: { definitions, findings, recorded: write ?? recorded !== undefined },
    found: unsafe.length > 0,
  };
}

interface DefinitionHash {
  readonly name: string;
  readonly hash: string;
  readonly indexes: readonly {
    readonly name: string;
    readonly kind: string;
    readonly hash: string;
  }[];
}

/** Hashes of entities and their indexes, which identify what was deployed. */
function hashesOf({ entities }: DefinitionsRecord): DefinitionHash[] {
  return Object.entries(entities).map(([name, entity]) => ({
    name,
    hash: hashOf(entity),
    indexes: Object.entries(entity.indexes).map(([index, each]) => {
      return { name: index, kind: each.kind, hash: hashOf(each) };
    }),
  }));
}

function describeHashes(definitions: readonly DefinitionHash[]): string[] {
  const table = definitions.flatMap(({ name, hash, indexes }) => [
    [name, "entity", hash],
    ...indexes.map((index) => [`${name}.${index.name}`, index.kind, index.hash]),
  ]);
  return alignColumns(table);
}

const CHANGES = new Set([
  ...["entity-gone", "key-changed", "field-changed", "version-lowered"],
  ...["index-new", "index-changed", "index-gone"],
]);

function changesBetween(
  recorded: DefinitionsRecord | undefined,
  { entities }: DefinitionsRecord,
  schema: Schema,
): Finding[] {
  if (!recorded) return [];
  const changes = Object.entries(entities).flatMap(([name, after]) => {
    const before = recorded.entities[name];
    const upgrades = schema.entities.get(name)?.rows.needsWholeRows ?? false;
    return before ? compareEntities({ name, before, after, upgrades }) : [];
  });
  return [...compareNames(recorded, new Set(Object.keys(entities))), ...changes];
}

/** `schema.ts` is recorded in `schema.definitions.json`, in the same folder. */
function recordFileOf(file: string): string {
  const name = basename(file).replace(/\.[cm]?[jt]s$/, "");
  return join(dirname(file), `${name}.definitions.json`);
}

function readRecord(file: string): DefinitionsRecord | undefined {
  if (!existsSync(file)) return undefined;
  const record = parsed(readFileSync(file, "utf8"));
  // This program wrote the file if the format matches, so its content is as declared.
  if (record?.format === 1) return record;
  throw new Error(
    `${file} is not a record of definitions: delete it, or restore what check --write wrote.`,
  );
}

function parsed(text: string): DefinitionsRecord | null | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function refused(error: unknown): Outcome {
  const { message, issues } = error as { readonly message: string; readonly issues?: unknown };
  return {
    lines: [message, "1 error, 0 warnings"],
    json: { definitions: [], findings: [], refused: issues },
    found: true,
  };
}
