/**
 * Names of properties, as the service takes them: a letter or `_`, then letters, digits and `_` of
 * any script, as C# identifiers. None needs an escape in JSON, so stored text holds them as they are.
 */
export function isPropertyName(text: string): boolean {
  return PROPERTY_NAME.test(text);
}

/** A name in the form that stored entities are searched by; see `EntityView.find`. */
export function encodeName(name: string): Uint8Array {
  return encoder.encode(name);
}

const encoder = new TextEncoder();
const PROPERTY_NAME = /^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Nd}\p{Mn}\p{Mc}\p{Pc}\p{Cf}]*$/u;
