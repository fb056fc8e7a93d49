/**
 * Days of the Gregorian calendar, counted from 0001-01-01. All arithmetic is on 32-bit integers
 * (`| 0`): with doubles, printing a Timestamp took twice as long.
 */

const DAYS_BEFORE_MONTH = [0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];

/** `month` is 1 … 12. */
export function daysOfMonth(year: number, month: number): number {
  if (month === 2 && isLeapYear(year)) return 29;
  return DAYS_BEFORE_MONTH[month + 1]! - DAYS_BEFORE_MONTH[month]!;
}

/** Days from 0001-01-01 to a date. */
export function daysOfDate(year: number, month: number, day: number): number {
  const years = (year - 1) | 0;
  const leapDays = ((years / 4) | 0) - ((years / 100) | 0) + ((years / 400) | 0);
  const leapDay = month > 2 && isLeapYear(year) ? 1 : 0;
  return years * 365 + leapDays + DAYS_BEFORE_MONTH[month]! + leapDay + day - 1;
}

/** The inverse of `daysOfDate`, as year * 10,000 + month * 100 + day. */
export function dateOfDays(days: number): number {
  // Counting years from March puts the leap day last; 306 days are March to December of the year 0.
  const shifted = days + 306;
  const era = (shifted / 146_097) | 0;
  const dayOfEra = shifted - era * 146_097;
  const leapDays = ((dayOfEra / 1460) | 0) - ((dayOfEra / 36_524) | 0) + ((dayOfEra / 146_096) | 0);
  const yearOfEra = ((dayOfEra - leapDays) / 365) | 0;
  const dayOfYear = dayOfEra - yearOfEra * 365 - ((yearOfEra / 4) | 0) + ((yearOfEra / 100) | 0);
  const march = ((dayOfYear * 5 + 2) / 153) | 0;
  const day = dayOfYear - (((march * 153 + 2) / 5) | 0) + 1;
  const month = march < 10 ? march + 3 : march - 9;
  const year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0);
  return year * 10_000 + month * 100 + day;
}

function isLeapYear(year: number): boolean {
  return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
}
