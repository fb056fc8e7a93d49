import { tableError, validationFailed } from "./errors.ts";
import { padded } from "./keys/number.ts";
import { type Field, f } from "./model/field.ts";
import { STRING_LENGTH_MAX } from "./ports/edm.ts";

type Digit = "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9";
type Part = `0${Digit}` | `1${"0" | "1" | "2" | "3" | "4"}`;

/** The properties that a long text uses in its entity. */
export type LongTextFields<Name extends string> = {
  readonly [P in `${Name}_${Part}`]: Field<string, true>;
} & { readonly [P in `${Name}_count`]: Field<number, true> };

/** The values of those properties; undefined after the end of the text. */
export type LongTextParts<Name extends string> = {
  readonly [P in `${Name}_${Part}`]?: string;
} & { readonly [P in `${Name}_count`]?: number };

export interface LongText<Name extends string> {
  /** Spread them among the fields of an entity. */
  readonly fields: LongTextFields<Name>;
  /**
   * The text in parts, to spread among the values of an entity. Properties it does not need are undefined,
   * which removes what a longer text left there. @throws entity-too-large.
   */
  split(text: string): LongTextParts<Name>;
  /** Undefined when the entity has none. @throws validation-failed when a part is missing. */
  join(entity: Partial<Record<keyof LongTextParts<Name>, unknown>>): string | undefined;
}

const PARTS_MAX = 15;

/** Text of 64 KiB to 900 KiB in one entity, split over up to 15 properties. */
export function longText<const Name extends string>(name: Name): LongText<Name> {
  const names = Array.from({ length: PARTS_MAX }, (_, i) => `${name}_${padded(i, 2)}`);
  const count = `${name}_count`;
  const fields = Object.fromEntries(names.map((part) => [part, f.string().optional()]));
  // The names computed here are those the type computes from `name`.
  const codec = {
    fields: { ...fields, [count]: f.int32().optional() },
    split(text: string): Record<string, string | number | undefined> {
      if (typeof text !== "string") {
        throw validationFailed(`The text "${name}"`, name, "text is expected");
      }
      const parts = slices(text);
      if (parts.length > PARTS_MAX) {
        const limit = PARTS_MAX * STRING_LENGTH_MAX * 2;
        const bytes = text.length * 2;
        const remedy = "store the text in a blob";
        // States the number of properties, since no part ends within a surrogate pair and one more may be
        // needed.
        const message = `"${name}" takes ${bytes} bytes in ${parts.length} properties; at most ${limit} in ${PARTS_MAX} are allowed.`;
        throw tableError(
          "entity-too-large",
          message,
          { bytes, limit, remedy },
          { remedy: `${remedy}.` },
        );
      }
      return {
        ...Object.fromEntries(names.map((part, i) => [part, parts[i]])),
        [count]: parts.length,
      };
    },
    join(entity: Readonly<Record<string, unknown>>): string | undefined {
      if (entity[count] === undefined) return undefined;
      const parts = names.slice(0, Number(entity[count])).map((part) => entity[part]);
      const missing = parts.indexOf(undefined);
      if (missing < 0) return parts.join("");
      throw validationFailed(`The text "${name}"`, names[missing]!, "the part is missing");
    },
  };
  return codec as unknown as LongText<Name>;
}

/** Slices as long as a property holds, but never cut within a surrogate pair. */
export function slices(text: string): string[] {
  const parts: string[] = [];
  for (let from = 0; from < text.length || from === 0; ) {
    let to = Math.min(from + STRING_LENGTH_MAX, text.length);
    const isHigh = (text.charCodeAt(to - 1) & 0xfc00) === 0xd800;
    if (to < text.length && isHigh) to--;
    parts.push(text.slice(from, to));
    from = to || 1;
  }
  return parts;
}
