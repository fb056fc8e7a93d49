const HTTP_DATE =
  /^(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat), \d\d (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [1-9]\d{3} \d\d:\d\d:\d\d GMT$/;
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/**
 * Milliseconds since 1970; undefined if the text is not an RFC 1123 date such as
 * `Wed, 06 Jan 2021 01:01:30 GMT`, with the right day of the week.
 */
export function parseHttpDate(text: string): number | undefined {
  if (!HTTP_DATE.test(text)) return undefined;
  const date = new Date(text);
  // Date rolls a day that does not exist over to the next one and ignores the day of the week.
  const exists =
    date.getUTCDate() === Number(text.slice(5, 7)) && DAYS[date.getUTCDay()] === text.slice(0, 3);
  return exists ? date.getTime() : undefined;
}
