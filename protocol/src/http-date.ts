const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const HTTP_DATE = /^([A-Z][a-z]{2}), (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT$/;

/**
 * Milliseconds since 1970, or undefined when the text is not an RFC 1123 date such as
 * `Wed, 06 Jan 2021 01:01:30 GMT` with the right day of the week.
 */
export function parseHttpDate(text: string): number | undefined {
  const match = HTTP_DATE.exec(text);
  if (match === null) return undefined;
  const [, weekday, day, month, year, hour, minute, second] = match;
  const date = new Date(0);
  // Not Date.UTC, which reads the years 0 to 99 as 1900 to 1999.
  date.setUTCFullYear(Number(year), MONTHS.indexOf(month!), Number(day));
  date.setUTCHours(Number(hour), Number(minute), Number(second));
  return date.toUTCString() === text && DAYS[date.getUTCDay()] === weekday
    ? date.getTime()
    : undefined;
}
