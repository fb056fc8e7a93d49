import { daysOfMonth } from "./calendar.ts";

/**
 * Whether a version of the protocol could bear this name: a date there is, as `2019-02-02`. Those not published yet are
 * good, too. Dates of one form compare as texts do.
 */
export function isProtocolVersion(text: string): boolean {
  if (!VERSION.test(text)) return false;
  const day = text.slice(8);
  // Every month has these; all of a date is read for few versions only.
  return day <= "28" || Number(day) <= daysOfMonth(+text.slice(0, 4), +text.slice(5, 7));
}

const VERSION = /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/;
