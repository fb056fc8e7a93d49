import { SettingsSection } from "../auth/settings-section.ts";
import { PLAN_CLASSES, type PlanClass } from "../query/plan.ts";

/** Limits on the cost of queries. An absent limit does not restrict. */
export interface ScanRule {
  /** Undefined: every table that no rule names. Compared without case. */
  readonly table?: string | undefined;
  /** The table's queries are never over budget. */
  readonly allow?: boolean | undefined;
  /** Queries of this class, and of any more expensive one, are over budget. */
  readonly class?: PlanClass | undefined;
  /** The smallest share of the entities read that must be returned. */
  readonly density?: number | undefined;
  /** Pages that read fewer entities are exempt from `density`. */
  readonly from?: number | undefined;
  /** The most entities that one page may read. */
  readonly read?: number | undefined;
}

export interface ScanRules {
  /** Whether queries over budget are refused. */
  readonly strict: boolean;
  readonly rules: readonly ScanRule[];
}

/**
 * Reads rules in JSON (`{ "strict": true, "rules": [{ "class": "table scan" }] }`) or in short text:
 *
 *     rules := part (";" part)*
 *     part  := "strict" | [table ":"] limit ("," limit)*
 *     limit := "no " CLASS | "density " SHARE [" from " COUNT] | "read " COUNT | "allow"
 *
 * @throws Error that quotes what is not a rule. Text without any rule is refused as well: a budget that never
 * binds is a mistake.
 */
export function parseScanRules(text: string): ScanRules {
  const rules = text.trimStart().startsWith("{") ? readJson(text) : parseText(text);
  if (rules.rules.length === 0) throw new Error("The scan budget has no rules.");
  return rules;
}

const DENSITY_FROM = 100;
const CLASSES = PLAN_CLASSES.filter((name) => name !== "nothing");

function parseText(text: string): ScanRules {
  const parts = text
    .split(";")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  return {
    strict: parts.includes("strict"),
    rules: parts.filter((part) => part !== "strict").flatMap(parsePart),
  };
}

/** One rule per limit. */
function parsePart(part: string): ScanRule[] {
  const named = /^([A-Za-z][A-Za-z0-9]*)\s*:(.*)$/s.exec(part);
  const table = named?.[1];
  return (named?.[2] ?? part).split(",").map((limit) => ({ table, ...parseLimit(limit) }));
}

function parseLimit(text: string): ScanRule {
  const limit = text.trim().replace(/\s+/g, " ");
  if (limit === "allow") return { allow: true };
  const density = /^density (\d*\.?\d+)(?: from (\d+))?$/.exec(limit);
  if (density) {
    return { density: share(Number(density[1])), from: Number(density[2] ?? DENSITY_FROM) };
  }
  const read = /^read (\d+)$/.exec(limit);
  if (read) return { read: Number(read[1]) };
  if (limit.startsWith("no ")) return { class: planClass(limit.slice(3)) };
  throw new Error(
    `"${limit}" is not a scan budget limit; use "no CLASS", "density SHARE from COUNT", "read COUNT" or "allow".`,
  );
}

function planClass(text: string): PlanClass {
  const found = CLASSES.find((name) => name === text);
  if (found) return found;
  throw new Error(`"${text}" is not a query class; the classes are ${CLASSES.join(", ")}.`);
}

function share(density: unknown): number {
  if (typeof density === "number" && density >= 0 && density <= 1) return density;
  throw new Error(`The density ${JSON.stringify(density)} is not a number from 0 to 1.`);
}

function readJson(text: string): ScanRules {
  const root = new SettingsSection(parseJson(text), "the scan budget");
  const strict = root.flag("strict");
  const rules = root.sections("rules").map(readRule);
  root.end();
  return { strict, rules };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error("The scan budget is not valid JSON.", { cause });
  }
}

function readRule(section: SettingsSection): ScanRule {
  const name = section.optionalText("class");
  const density = section.value("density");
  const rule: ScanRule = {
    table: section.optionalText("table"),
    allow: section.flag("allow"),
    class: name === undefined ? undefined : planClass(name),
    density: density === undefined ? undefined : share(density),
    from: section.optionalNumber("from", 0) ?? DENSITY_FROM,
    read: section.optionalNumber("read", 0),
  };
  section.end();
  if (!rule.allow && rule.class === undefined && density === undefined && rule.read === undefined) {
    throw new Error(`${section.path} limits nothing; set class, density, read or allow.`);
  }
  return rule;
}
