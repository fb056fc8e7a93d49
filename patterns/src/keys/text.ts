/**
 * The escape for text in key segments. Any well-formed string becomes printable ASCII without separators and
 * without characters forbidden in keys, and sorts as the original does by UTF-16 code unit.
 *
 * Each escape begins with the nearest allowed character below the one it stands for and continues with `~~`,
 * which sorts above anything that can follow that character unescaped; so order is preserved.
 */

import { hex } from "./number.ts";

const ESCAPE_OF: Record<string, string> = { "%": "$~~", "/": ".~~", "?": ">~~", "\\": "[~~" };
const ESCAPED_BY: Record<string, string> = { $: "%", ".": "/", ">": "?", "[": "\\", "^": "_" };
/** `_` needs an escape only where the readable layout would take it for its separator. */
const NEEDS_ESCAPE = /[^$&-.0->@-[\]-}]/;
const UNPAIRED_SURROGATE = /\p{Surrogate}/u;

export interface TextPlace {
  /** True in the readable layout when another segment follows: `_` is escaped too. */
  readonly escapeUnderscore: boolean;
}

/** @throws RangeError for an unpaired surrogate, which cannot be sent. */
export function encodeText(value: string, { escapeUnderscore }: TextPlace): string {
  if (!NEEDS_ESCAPE.test(value) && !(escapeUnderscore && value.includes("_"))) return value;
  assertPaired(value);
  let key = "";
  for (let i = 0; i < value.length; i++) {
    const char = value.charAt(i);
    const unit = value.charCodeAt(i);
    if (unit <= 0x23) key += '"' + hex(unit, 2);
    else if (unit >= 0x7e) key += "~0" + hex(unit, 4);
    else if (char === "_" && escapeUnderscore) key += "^~~";
    else key += ESCAPE_OF[char] ?? char;
  }
  return key;
}

/** @throws RangeError for an unpaired surrogate, which no URL can carry. */
export function assertPaired(value: string): void {
  if (UNPAIRED_SURROGATE.test(value)) throw new RangeError("The text has an unpaired surrogate");
}

export function decodeText(key: string): string {
  return key.replace(/"(..)|~0(....)|([$.>[^])~~/gs, (_all, control, unit, leader) =>
    leader ? ESCAPED_BY[leader]! : String.fromCharCode(Number.parseInt(control ?? unit, 16)),
  );
}

/**
 * The exclusive end of the keys whose text begins with `prefix`. Incrementing the last character is correct
 * only if it stands for itself and begins no escape: `[a., a/)` would also hold `a.~~x`, which is `a/x`.
 */
export function endOfPrefix(prefix: string, place: TextPlace): string {
  const key = encodeText(prefix, place);
  if (key === "") return "~~";
  const last = key.charAt(key.length - 1);
  const standsForItself = last === prefix.charAt(prefix.length - 1) && !(last in ESCAPED_BY);
  return standsForItself ? endOf(key) : key + "~~";
}

/** The smallest string above every string that begins with `key`; its last character is below U+FFFF. */
export function endOf(key: string): string {
  return key.slice(0, -1) + String.fromCharCode(key.charCodeAt(key.length - 1) + 1);
}

/** Whether some text begins with both. */
export function beginAlike(a: string, b: string): boolean {
  return a.startsWith(b) || b.startsWith(a);
}
