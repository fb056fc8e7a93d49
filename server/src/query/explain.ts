import { printFilter } from "@rowhouse/protocol/filter-printer";
import { type KeyPosition, type KeyRead, PLAN_CLASSES, type Plan, type RangeRead } from "./plan.ts";

/**
 * The textual form of a plan, for people: used by tests, logs and the `x-rowhouse-plan` header.
 * One line of printable ASCII.
 *
 *     plan  := "nothing" | group (" + " group)* [" where " filter]
 *     group := CLASS [" " key-range]                     one read of its class
 *            | COUNT CLASS-PLURAL " " key-range ("," key-range)* [", and " COUNT " more"]
 *
 *     point query      a/b          partition key, row key
 *     range query      a/[x..y)     row keys from x up to y; "(" and "]" as in mathematics;
 *                      a/[x..)      an open side has no bound
 *     partition scan   a
 *     partition range  [a..b)       partition keys; with a row key, a position in that partition:
 *                      (a/x..b]     everything after entity a/x, up to the end of partition b
 *     table scan
 *
 * Groups are ordered from cheap to expensive, reads within a group by key. A key of letters, digits
 * and a few other characters is printed as it is; any other is quoted as in a filter (`'O''Brien'`,
 * `''`). In keys and filter, characters outside printable ASCII become `\uXXXX`, and very long text
 * is cut and ends in `...`.
 */
export function explain(plan: Plan): string {
  if (plan.reads.length === 0) return "nothing";
  const text = groupsOf(plan.reads).map(explainGroup).join(" + ");
  if (plan.residual === undefined) return text;
  return `${text} where ${cut(toAscii(printFilter(plan.residual)), FILTER_LENGTH_MAX)}`;
}

/** The same for one entity read by its address, without a plan. */
export function explainPoint(partitionKey: string, rowKey: string): string {
  return `point query ${printKey(partitionKey)}/${printKey(rowKey)}`;
}

function groupsOf(reads: readonly KeyRead[]): (readonly KeyRead[])[] {
  if (reads.length === 1) return [reads];
  const groups = PLAN_CLASSES.map((name) => reads.filter((read) => read.class === name));
  return groups.filter((group) => group.length > 0);
}

const GROUP_READS_SHOWN = 8;
const KEY_LENGTH_MAX = 100;
const FILTER_LENGTH_MAX = 1000;

function explainGroup(reads: readonly KeyRead[]): string {
  const name = reads[0]!.class;
  const shown = reads.slice(0, GROUP_READS_SHOWN).map(explainRead).join(", ");
  if (reads.length === 1) return shown === "" ? name : `${name} ${shown}`;
  const more = reads.length - GROUP_READS_SHOWN;
  return `${reads.length} ${plural(name)} ${shown}${more > 0 ? `, and ${more} more` : ""}`;
}

function plural(name: string): string {
  return name.endsWith("query") ? name.replace(/query$/, "queries") : `${name}s`;
}

function explainRead(read: KeyRead): string {
  switch (read.class) {
    case "point query":
      return `${printKey(read.partitionKey)}/${printKey(read.rowKey)}`;
    case "range query":
      return `${printKey(read.start.partitionKey)}/${rowInterval(read)}`;
    case "partition scan":
      return printKey(read.start.partitionKey);
    case "partition range":
      return `${partitionStart(read.start)}..${partitionEnd(read.end)}`;
    case "table scan":
      return "";
  }
}

function rowInterval({ start, end }: RangeRead): string {
  const from = lowerBound(start.rowKey);
  const open = end === undefined || end.partitionKey !== start.partitionKey;
  return `${from}..${open ? ")" : upperBound(end.rowKey)}`;
}

function partitionStart({ partitionKey, rowKey }: KeyPosition): string {
  if (rowKey === "") return lowerBound(partitionKey);
  const key = printKey(partitionKey);
  return isAfter(rowKey) ? `(${key}/${printKey(before(rowKey))}` : `[${key}/${printKey(rowKey)}`;
}

function partitionEnd(end: KeyPosition | undefined): string {
  if (end === undefined) return ")";
  const { partitionKey, rowKey } = end;
  if (rowKey === "") return upperBound(partitionKey);
  const key = printKey(partitionKey);
  return isAfter(rowKey) ? `${key}/${printKey(before(rowKey))}]` : `${key}/${printKey(rowKey)})`;
}

function lowerBound(key: string): string {
  if (key === "") return "(";
  return isAfter(key) ? `(${printKey(before(key))}` : `[${printKey(key)}`;
}

function upperBound(key: string): string {
  return isAfter(key) ? `${printKey(before(key))}]` : `${printKey(key)})`;
}

/** "a\0" is the position after "a"; no key contains that character. */
function isAfter(bound: string): boolean {
  return bound.endsWith("\0");
}

function before(bound: string): string {
  return bound.slice(0, -1);
}

function printKey(key: string): string {
  const text = PLAIN_KEY.test(key) ? key : `'${toAscii(key.replaceAll("'", "''"))}'`;
  return cut(text, KEY_LENGTH_MAX);
}

/** Excludes the characters used by the syntax above, except single dots. */
const PLAIN_KEY = /^(?:[A-Za-z0-9_~!@#$%^&*=:;|<>?-]|\.(?!\.|$))+$/;

function toAscii(text: string): string {
  return text.replace(/[^ -~]|\\/g, escapeUnit);
}

function escapeUnit(char: string): string {
  return char === "\\" ? "\\\\" : `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function cut(text: string, lengthMax: number): string {
  return text.length <= lengthMax ? text : `${text.slice(0, lengthMax)}...`;
}
