import { daysOfMonth } from "./calendar.ts";

/**
 * Whether the text could name a protocol version: an existing date such as `2019-02-02`. Versions
 * not published yet are accepted. Dates of this form compare as texts.
 */
export function isProtocolVersion(text: string): boolean {
  if (!VERSION.test(text)) return false;
  const day = text.slice(8);
  // Every month has these days, so only late days need the month's length.
  return day <= "28" || Number(day) <= daysOfMonth(+text.slice(0, 4), +text.slice(5, 7));
}

const VERSION = /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/;
