import type { Finding } from "./finding.ts";
import { type DefinitionsRecord, type EntityRecord, hashOf, type IndexRecord } from "./record.ts";

/** A new definition of an entity, and the recorded one. */
export interface EntityChange {
  readonly name: string;
  readonly before: EntityRecord;
  readonly after: EntityRecord;
  /** Whether the new definition upgrades older rows. */
  readonly upgrades: boolean;
}

/** The problems that rows stored under the recorded definition would have under the new one. */
export function compareEntities(change: EntityChange): Finding[] {
  return [...compareKeys(change), ...compareFields(change), ...compareIndexes(change)];
}

export function compareNames(recorded: DefinitionsRecord, names: ReadonlySet<string>): Finding[] {
  return Object.keys(recorded.entities)
    .filter((name) => !names.has(name))
    .map((name) => ({
      id: "entity-gone",
      level: "error",
      where: name,
      message: "is recorded but no longer exported",
      remedy: "export it, or record its removal with check --write.",
    }));
}

function compareKeys({ name, before, after }: EntityChange): Finding[] {
  return (["table", "partitionKey", "rowKey"] as const)
    .filter((part) => before[part] !== after[part])
    .map((part) => ({
      id: "key-changed",
      level: "error",
      where: name,
      message: `${WORDS[part]} was ${before[part]} and is ${after[part]}: existing rows will not be found`,
      remedy: "declare a new entity on a new table and copy the rows to it.",
    }));
}

const WORDS = { table: "its table", partitionKey: "its partition key", rowKey: "its row key" };

function compareFields({ name, before, after, upgrades }: EntityChange): Finding[] {
  const findings: Finding[] = [];
  const isUpgraded = after.version > before.version && upgrades;
  const unsafe = (field: string, message: string) =>
    findings.push({
      id: "field-changed",
      level: "error",
      where: `${name}.${field}`,
      message,
      remedy: `raise version to ${before.version + 1} and declare upgrade: { ${before.version}: (old) => … }.`,
    });
  if (after.version < before.version) {
    findings.push({
      id: "version-lowered",
      level: "error",
      where: name,
      message: `version ${before.version} is recorded but this is ${after.version}: the table contains rows of the newer version`,
      remedy: "continue from the recorded version.",
    });
  }
  for (const [field, is] of Object.entries(after.fields)) {
    const was = before.fields[field];
    if (was === is || isUpgraded) continue;
    if (was === undefined) {
      if (!is.includes("?")) unsafe(field, "is new and not optional: existing rows lack it");
    } else if (was.replace("?", "") !== is.replace("?", "")) {
      unsafe(field, `was stored as ${was} and is ${is}`);
    } else if (!is.includes("?")) {
      unsafe(field, "was optional and no longer is: some rows may lack it");
    }
  }
  for (const field of Object.keys(before.fields)) {
    if (field in after.fields) continue;
    findings.push({
      id: "field-gone",
      level: "warning",
      where: `${name}.${field}`,
      message: "is recorded but no longer declared: a replace removes it from rows",
      remedy: "keep it as optional until no row needs it.",
    });
  }
  return findings;
}

function compareIndexes({ name, before, after }: EntityChange): Finding[] {
  const findings: Finding[] = [];
  const report = (id: string, index: string, message: string, remedy: string) =>
    findings.push({ id, level: "error", where: `${name}.${index}`, message, remedy });
  for (const [index, is] of Object.entries(after.indexes)) {
    const was = before.indexes[index];
    if (was === undefined) {
      const command = `rowhouse patterns index build ${name}.${index} --register`;
      report(
        "index-new",
        index,
        "is new: existing rows have no entries",
        `${command}, then check --write.`,
      );
    } else if (hashOf(was) !== hashOf(is)) {
      report(
        "index-changed",
        index,
        `${differenceOf(was, is)}: existing entries do not match`,
        "declare it under a new name, build that index, move readers to it, then retire the old one.",
      );
    }
  }
  for (const index of Object.keys(before.indexes)) {
    if (index in after.indexes) continue;
    const remedy = `declare it, rowhouse patterns index retire ${name}.${index}, then remove it and check --write.`;
    report("index-gone", index, "is recorded but no longer declared: its entries remain", remedy);
  }
  return findings;
}

function differenceOf(was: IndexRecord, is: IndexRecord): string {
  if (was.kind !== is.kind) return `was a ${was.kind} index and is a ${is.kind} index`;
  for (const part of ["table", "partitionKey", "rowKey"] as const) {
    const [before, after] = [was.place?.[part], is.place?.[part]];
    if (before !== after) return `${WORDS[part]} was ${before} and is ${after}`;
  }
  const names = new Set([...Object.keys(was.options), ...Object.keys(is.options)]);
  for (const name of names) {
    const [before, after] = [was.options[name], is.options[name]].map((value) =>
      JSON.stringify(value ?? null),
    );
    if (before !== after) return `${name} was ${before} and is ${after}`;
  }
  return "is declared in a different order";
}
