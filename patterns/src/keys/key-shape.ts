import { reasonOf, validationFailed } from "../errors.ts";
import { type KeyDeclaration, type KeyPart, type LaidOut, type Layout, Segment } from "./key.ts";
import { type KeyRange, within } from "./key-range.ts";
import { beginAlike, decodeText, endOf, endOfPrefix, type TextPlace } from "./text.ts";

export type KeyValues = Readonly<Record<string, unknown>>;

interface Bounds {
  readonly gte?: unknown;
  readonly gt?: unknown;
  readonly lt?: unknown;
  readonly lte?: unknown;
  readonly startsWith?: string;
}

const BOUND_NAMES = ["gte", "gt", "lt", "lte", "startsWith"];

/** Why these shapes cannot be the keys of one row; one sentence each. */
export function keyProblems(...shapes: readonly KeyShape[]): string[] {
  const problems: string[] = [];
  for (const { parts, separator } of shapes) {
    if (parts.length === 0) problems.push("has no parts");
    for (const part of parts) {
      if (part instanceof Segment) continue;
      if (!/^[$&-.0->@-[\]-}]+$/.test(part.literal) || part.literal.includes(separator)) {
        problems.push(
          `has the literal "${part.literal}", which is empty or has a reserved character`,
        );
      }
    }
  }
  const segments = shapes.flatMap((shape) => shape.segments);
  const folded = new Set(segments.filter(({ options }) => options.folds).map(({ field }) => field));
  for (const { field, form, options } of segments) {
    // Two spellings of one value would be in two partitions, "unique" in both.
    if (form === "hashed" && !options.folds && folded.has(field)) {
      problems.push(
        `hashes "${field}" with its case, but its keys ignore case: use k.hashCI("${field}", …)`,
      );
    }
  }
  return problems;
}

/**
 * The names that a query could not tell apart. A hashed segment may share the name of the one it is computed
 * from.
 */
export function namedTwice(...shapes: readonly KeyShape[]): string[] {
  const names = shapes.flatMap(({ segments }) =>
    segments.filter(({ form }) => form !== "hashed").map(({ name }) => name),
  );
  const twice = new Set(names.filter((name, i) => names.indexOf(name) < i));
  return Array.from(
    twice,
    (name) => `names two segments "${name}"; give the computed one another name`,
  );
}

/**
 * A compiled key: literals and segments joined by a separator. `!` (ordered) sorts below every character of a
 * segment, `_` (readable) does not. Both layouts are one-to-one; only the ordered one sorts tuples with text
 * segments in the middle.
 */
export class KeyShape {
  readonly parts: readonly KeyPart[];
  readonly layout: Layout;
  readonly segments: readonly Segment[];
  /** `!` sorts below every character that segments hold; `_` does not. */
  readonly separator: string;

  constructor(declaration: KeyDeclaration) {
    const { parts, layout }: Partial<LaidOut> & Pick<LaidOut, "parts"> =
      "parts" in declaration ? declaration : { parts: declaration };
    this.parts = parts;
    this.segments = this.parts.filter((part) => part instanceof Segment);
    const texts = this.segments.filter((segment) => segment.form === "text").length;
    this.layout = layout ?? (texts >= 2 ? "ordered" : "readable");
    this.separator = this.layout === "ordered" ? "!" : "_";
  }

  /** The text every key of this shape begins with: its leading literals. */
  get prefix(): string {
    let prefix = "";
    for (const [i, part] of this.parts.entries()) {
      if (part instanceof Segment) break;
      prefix += part.literal + (i < this.parts.length - 1 ? this.separator : "");
    }
    return prefix;
  }

  /** Whether some key of this shape may begin with `prefix`, or be the begin of it. */
  mayBeginWith(prefix: string): boolean {
    const [first] = this.parts;
    const isDecimal = first instanceof Segment && first.options.isDecimal;
    return isDecimal && prefix !== "" ? /^\d/.test(prefix) : beginAlike(this.prefix, prefix);
  }

  /** @throws validation-failed when a segment has no value or cannot hold it. */
  encode(values: KeyValues): string {
    const last = this.parts.length - 1;
    // In plain JavaScript the values may be missing altogether.
    const given: KeyValues = Object(values);
    const text = this.parts.map((part, i) => {
      if (!(part instanceof Segment)) return part.literal;
      const { field, name, options } = part;
      // Rows have the field. Keys have the segment's name, which in a row may be another field.
      const other = options.absent === undefined ? given[name] : undefined;
      return this.#encoded(part, given[field] ?? other, i === last);
    });
    return text.join(this.separator);
  }

  /** The values of the segments, decoded into `values`; undefined for a key of another shape. */
  decode(key: string, values: Record<string, unknown> = {}): Record<string, unknown> | undefined {
    const last = this.parts.length - 1;
    let from = 0;
    for (let i = 0; i <= last; i++) {
      const part = this.parts[i]!;
      // Only the last segment can contain the separator.
      const end = i === last ? key.length : key.indexOf(this.separator, from);
      if (end < 0) return undefined;
      const text = key.slice(from, end);
      from = end + 1;
      if (part instanceof Segment) {
        if (!part.lossless) continue;
        const value = decoded(part, text);
        if (value === undefined) return undefined;
        values[part.field] = value;
      } else if (part.literal !== text) return undefined;
    }
    return values;
  }

  /**
   * The range that `query` selects: equality on the leading segments, then at most one range.
   * @throws validation-failed when a later segment is bound, or the layout cannot serve the range.
   */
  rangeOf(query: KeyValues): KeyRange {
    const given: KeyValues = Object(query);
    let prefix = "";
    for (const [i, part] of this.parts.entries()) {
      const value = part instanceof Segment ? given[part.name] : part.literal;
      const isLast = i === this.parts.length - 1;
      if (part instanceof Segment && (value === undefined || isBounds(value))) {
        this.#assertNothingBoundAfter(i, given);
        return value === undefined
          ? within(prefix)
          : this.#bounded(part, prefix, value as Bounds, isLast);
      }
      const text = part instanceof Segment ? this.#encoded(part, value, isLast) : part.literal;
      if (isLast) return { from: prefix + text, to: prefix + text, throughTo: true };
      prefix += text + this.separator;
    }
    return {};
  }

  #bounded(segment: Segment, prefix: string, bounds: Bounds, isLast: boolean): KeyRange {
    const given = Object.keys(bounds).filter((name) => bounds[name as keyof Bounds] !== undefined);
    const refuse = (message: string) => {
      throw validationFailed("The key", segment.name, message);
    };
    if (segment.form === "hashed") refuse("a hashed segment supports only equality");
    const { startsWith } = bounds;
    if (startsWith !== undefined) {
      if (segment.form !== "text") refuse("only text has prefixes");
      if (given.length > 1) refuse("use startsWith alone");
      if (startsWith === "") return within(prefix);
      const text = this.#encodedBound(segment, startsWith, isLast);
      // Compares what the keys hold. Without case that is not the text given: a capital sigma becomes one
      // letter at the end of a word and another within it.
      const inWord = decodeText(this.#encodedBound(segment, `${startsWith}a`, isLast)).slice(0, -1);
      if (decodeText(text).slice(0, -1) !== inWord.slice(0, -1)) {
        refuse("its last sigma has two lower-case forms; end the prefix there");
      }
      return { from: prefix + text, to: prefix + endOfPrefix(inWord, this.#placeOf(isLast)) };
    }
    if (segment.form === "text" && !isLast && this.layout === "readable") {
      refuse(
        "the readable layout does not sort text that is followed by another segment; declare the key with k.ordered(…)",
      );
    }
    if (bounds.gt !== undefined && bounds.gte !== undefined) refuse("use gt or gte, not both");
    if (bounds.lt !== undefined && bounds.lte !== undefined) refuse("use lt or lte, not both");
    // A descending codec reverses the comparisons.
    const { gt, gte, lt, lte } = segment.descending
      ? { gt: bounds.lt, gte: bounds.lte, lt: bounds.gt, lte: bounds.gte }
      : bounds;
    const at = (value: unknown) => prefix + this.#encodedBound(segment, value, isLast);
    // After every key that begins with the value, when other segments follow it.
    const behind = (value: unknown) => (isLast ? at(value) : endOf(at(value) + this.separator));
    return {
      ...(segment.options.among?.(prefix) ?? within(prefix)),
      ...(gte !== undefined && { from: at(gte) }),
      ...(gt !== undefined && { from: behind(gt), afterFrom: isLast }),
      ...(lt !== undefined && { to: at(lt) }),
      ...(lte !== undefined && { to: behind(lte), throughTo: isLast }),
    };
  }

  #assertNothingBoundAfter(index: number, query: KeyValues): void {
    for (const part of this.parts.slice(index + 1)) {
      if (part instanceof Segment && query[part.name] !== undefined) {
        const message = "a segment before it is not bound by equality";
        throw validationFailed("The key", part.name, message);
      }
    }
  }

  #encoded(segment: Segment, value: unknown, isLast: boolean): string {
    const { absent } = segment.options;
    const stands = absent !== undefined && (value === undefined || value === null);
    return stands ? absent : this.#encodedBound(segment, value, isLast);
  }

  /** The text for no value bounds no range: a segment that has one refuses null with its own message. */
  #encodedBound(segment: Segment, value: unknown, isLast: boolean): string {
    try {
      if (value === undefined || (value === null && segment.options.absent === undefined)) {
        throw new RangeError("the value is missing");
      }
      const { takes } = segment.options;
      if (takes?.includes(typeof value) === false) throw new RangeError(`a ${takes} is expected`);
      return segment.encode(value, this.#placeOf(isLast));
    } catch (error) {
      throw validationFailed("The key", segment.name, reasonOf(error));
    }
  }

  #placeOf(isLast: boolean): TextPlace {
    return { escapeUnderscore: this.layout === "readable" && !isLast };
  }
}

/** The value of a segment; undefined for text that it could not have written. */
function decoded(segment: Segment, text: string): unknown {
  try {
    return segment.options.pattern?.test(text) === false ? undefined : segment.decode(text);
  } catch {
    return undefined;
  }
}

/** A plain object of bounds only. A list, a Date or another library's date is a value. */
function isBounds(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  if (prototype && Object.getPrototypeOf(prototype)) return false;
  return Object.keys(value).every((name) => BOUND_NAMES.includes(name));
}
