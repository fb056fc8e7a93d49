/** A letter or `_`, then letters, digits and `_` of any script, as C# identifiers. */
export function isPropertyName(text: string): boolean {
  return PROPERTY_NAME.test(text);
}

const PROPERTY_NAME = /^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Nd}\p{Mn}\p{Mc}\p{Pc}\p{Cf}]*$/u;
