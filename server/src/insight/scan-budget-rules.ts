import { PLAN_CLASSES, type PlanClass } from "../query/plan.ts";

/** What queries may cost. Absent limits do not limit. */
export interface ScanRule {
  /** Undefined: every table that no rule names. Compared without case. */
  readonly table?: string | undefined;
  /** The table's queries are never over budget. */
  readonly allow?: boolean | undefined;
  /** Queries of this class, and of any dearer one, are over budget. */
  readonly class?: PlanClass | undefined;
  /** The least share of the entities read that must be returned. */
  readonly density?: number | undefined;
  /** Pages that read fewer entities are not judged by density. */
  readonly from?: number | undefined;
  /** The most entities one page may read. */
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
 * @throws Error naming the part that is none
 */
export function parseScanRules(text: string): ScanRules {
  if (text.trimStart().startsWith("{")) return readRules(JSON.parse(text));
  const parts = text
    .split(";")
    .map((part) => part.trim())
    .filter((part) => part !== "");
  if (parts.length === 0) throw new Error("The scan budget is empty.");
  return {
    strict: parts.includes("strict"),
    rules: parts.filter((part) => part !== "strict").map(parsePart),
  };
}

const DENSITY_FROM = 100;

function parsePart(part: string): ScanRule {
  const named = /^([A-Za-z][A-Za-z0-9]*)\s*:(.*)$/s.exec(part);
  let rule: ScanRule = { table: named?.[1] };
  for (const limit of (named?.[2] ?? part).split(",")) rule = { ...rule, ...parseLimit(limit) };
  return checked(rule);
}

function parseLimit(text: string): ScanRule {
  const limit = text.trim().replace(/\s+/g, " ");
  if (limit === "allow") return { allow: true };
  const density = /^density (\d*\.?\d+)(?: from (\d+))?$/.exec(limit);
  if (density) return { density: Number(density[1]), from: Number(density[2] ?? DENSITY_FROM) };
  const read = /^read (\d+)$/.exec(limit);
  if (read) return { read: Number(read[1]) };
  if (limit.startsWith("no ")) return { class: planClass(limit.slice(3)) };
  throw new Error(
    `"${limit}" is no limit of a scan budget; "no CLASS", "density SHARE from COUNT", "read COUNT" and "allow" are.`,
  );
}

function planClass(text: string): PlanClass {
  const found = PLAN_CLASSES.find((name) => name === text);
  if (found) return found;
  throw new Error(`"${text}" is no class of queries; ${PLAN_CLASSES.slice(1).join(", ")} are.`);
}

function readRules(json: unknown): ScanRules {
  const root = asObject(json, "The scan budget");
  const rules = root.rules ?? [];
  if (!Array.isArray(rules)) throw new Error(`"rules" of the scan budget is not a list.`);
  return {
    strict: root.strict === true,
    rules: rules.map((each: unknown, index) => {
      const {
        table,
        class: name,
        density,
        from,
        read,
        allow,
      } = asObject(each, `Rule ${index + 1}`);
      return checked({
        table: optional(table, "string", "table"),
        allow: optional(allow, "boolean", "allow"),
        class: name === undefined ? undefined : planClass(String(name)),
        density: optional(density, "number", "density"),
        from: optional(from, "number", "from") ?? DENSITY_FROM,
        read: optional(read, "number", "read"),
      });
    }),
  };
}

function asObject(json: unknown, what: string): Readonly<Record<string, unknown>> {
  if (typeof json === "object" && json !== null && !Array.isArray(json)) return { ...json };
  throw new Error(`${what} is not an object.`);
}

interface TypeNames {
  readonly string: string;
  readonly number: number;
  readonly boolean: boolean;
}

function optional<Name extends keyof TypeNames>(
  value: unknown,
  type: Name,
  name: string,
): TypeNames[Name] | undefined {
  const isType = (each: unknown): each is TypeNames[Name] => typeof each === type;
  if (value === undefined || isType(value)) return value;
  throw new Error(`"${name}" of a scan rule is no ${type}.`);
}

function checked(rule: ScanRule): ScanRule {
  const { density } = rule;
  if (density !== undefined && !(density >= 0 && density <= 1)) {
    throw new Error(`A density of ${density}; 0 to 1 are allowed.`);
  }
  return rule;
}
