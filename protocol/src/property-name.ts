/**
 * Property names as the service accepts them: a letter or `_`, then letters, digits and `_` of any
 * script; that is, C# identifiers that are XML names too. No such name needs escaping in JSON, so
 * stored entities hold names unchanged.
 */
export function isPropertyName(text: string): boolean {
  return PLAIN_NAME.test(text) || (IDENTIFIER.test(text) && XML_NAME.test(text));
}

/** A name in the form used to search stored entities; see `EntityView.find`. */
export function encodeName(name: string): Uint8Array {
  return encoder.encode(name);
}

const encoder = new TextEncoder();
const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const IDENTIFIER = /^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Nd}\p{Mn}\p{Mc}\p{Pc}\p{Cf}]*$/u;
/** The characters of XML 1.0 names that an identifier may have; `IDENTIFIER` checks the first one. */
const XML_NAME =
  /^[\w\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u037d\u037f-\u1fff\u200c-\u200d\u203f-\u2040\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\u{10000}-\u{effff}]+$/u;
