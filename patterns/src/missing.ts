import { Segment, type SegmentForm } from "./keys/key.ts";

/** These sort below and above every encoded value, since no escape begins with either. */
const FIRST = '""';
const LAST = "~~";
/** Above `FIRST` and everything that begins with it, below every value. */
const AFTER_FIRST = '"#';

/**
 * An index key segment that also includes entities without a value, before all others or after them. A query
 * finds them with `null`, or by leaving the segment unbound; a range of values excludes them. A plain segment
 * would leave such entities out of the index.
 */
export function missing<
  Name extends string,
  Value,
  Form extends SegmentForm,
  Source extends string,
>(
  place: "first" | "last",
  { name, field, form, options }: Segment<Name, Value, Form, Source>,
): Segment<Name, Value | null, Form, Source> {
  return new Segment<Name, Value | null, Form, Source>(name, field, form, {
    ...options,
    // `decode` would read the text of an absent value as a value.
    lossless: false,
    absent: place === "first" ? FIRST : LAST,
    among: (prefix) =>
      place === "first"
        ? { from: prefix + AFTER_FIRST, to: prefix + LAST }
        : { from: prefix, to: prefix + LAST },
    encode(value, textPlace) {
      if (value === null) throw new RangeError("null cannot bound a range");
      const text = options.encode(value, textPlace);
      if (text === "" && place === "first") {
        throw new RangeError('an empty text would come before no value; use missing("last", …)');
      }
      return text;
    },
  });
}
