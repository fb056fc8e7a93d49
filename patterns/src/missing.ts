import { Segment, type SegmentForm } from "./keys/key.ts";

/** Below and above everything a codec writes: neither can begin an escape. */
const FIRST = '""';
const LAST = "~~";
/** Above `FIRST` and what follows it, below every value. */
const AFTER_FIRST = '"#';

/**
 * A segment of an index's key that stands for entities without a value too: before all others or after them. They
 * are found by `null`, and come along wherever the segment is not bound; a range of values leaves them out. A
 * segment alone would leave them out of the index.
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
    // The key does not tell no value from one that reads like it.
    lossless: false,
    absent: place === "first" ? FIRST : LAST,
    among: (prefix) =>
      place === "first"
        ? { from: prefix + AFTER_FIRST, to: prefix + LAST }
        : { from: prefix, to: prefix + LAST },
    encode(value, textPlace) {
      if (value === null) throw new RangeError("no value cannot bound a range");
      const text = options.encode(value, textPlace);
      if (text === "" && place === "first") {
        throw new RangeError('an empty text would come before no value; use missing("last", …)');
      }
      return text;
    },
  });
}
