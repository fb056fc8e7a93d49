/**
 * Names of properties, as the service takes them: a letter or `_`, then letters, digits and `_` of
 * any script, as C# identifiers that are names in XML too. None needs an escape in JSON, so stored
 * text holds them as they are.
 */
export function isPropertyName(text: string): boolean {
  return PLAIN_NAME.test(text) || (IDENTIFIER.test(text) && XML_NAME.test(text));
}

/** A name in the form that stored entities are searched by; see `EntityView.find`. */
export function encodeName(name: string): Uint8Array {
  return encoder.encode(name);
}

const encoder = new TextEncoder();
const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const IDENTIFIER = /^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Nd}\p{Mn}\p{Mc}\p{Pc}\p{Cf}]*$/u;
/** Of the characters of XML 1.0 names those that an identifier may have; it begins as a name must. */
const XML_NAME =
  /^[\w\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u037d\u037f-\u1fff\u200c-\u200d\u203f-\u2040\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\u{10000}-\u{effff}]+$/u;
