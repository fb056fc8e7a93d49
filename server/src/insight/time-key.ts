/** How a partition key encodes the time of its own writing. */
export interface TimeKey {
  /** The text before the time. */
  readonly prefix: string;
  /** Whether later keys sort after earlier ones. */
  readonly ascends: boolean;
}

/** An entity may be written up to a day after its date begins, and time zones differ by half a day. */
const AWAY_MS = 40 * 3_600_000;
const MONTH_MS = 31 * 86_400_000;
/** In ticks of 100 ns since 0001-01-01: the year 1970, and the maximum. */
const TICKS_1970 = 621_355_968_000_000_000n;
const TICKS_MAX = 3_155_378_975_999_999_999n;
const TIME = /\d{4}-\d\d(?:-\d\d)?|\d{6,}/;

/**
 * Reads a key such as `20261123`, `2026-11-23T13`, `202611`, seconds or milliseconds since 1970, or ticks
 * (also those remaining until the maximum) as the time of `at`. Undefined where it is no time, or another
 * one.
 */
export function timeKeyOf(partitionKey: string, at: number): TimeKey | undefined {
  const found = TIME.exec(partitionKey);
  if (found === null) return undefined;
  const [digits] = found;
  const prefix = partitionKey.slice(0, found.index);
  if (digits.length === 19) {
    return isNear(ticksToMs(TICKS_MAX - BigInt(digits)), at)
      ? { prefix, ascends: false }
      : undefined;
  }
  const isTime = readings(digits).some((time) => isNear(time, at)) || isMonth(digits, at);
  return isTime ? { prefix, ascends: true } : undefined;
}

/** The times that the digits may mean, in milliseconds since 1970. */
function readings(digits: string): number[] {
  const isDate = digits.length >= 8 && digits.length !== 13;
  const times = isDate ? [beginningOf(digits.replaceAll("-", "").slice(0, 8))] : [];
  if (digits.length === 10) times.push(Number(digits) * 1000);
  if (digits.length === 13) times.push(Number(digits));
  if (digits.length === 18) times.push(ticksToMs(BigInt(digits)));
  return times;
}

/** Of a day; for digits without a day, of the month. */
function beginningOf(digits: string): number {
  const [year, month, day] = [digits.slice(0, 4), digits.slice(4, 6), digits.slice(6, 8) || "01"];
  return Date.parse(`${year}-${month}-${day}T00:00:00Z`);
}

function isMonth(digits: string, at: number): boolean {
  const plain = digits.replace("-", "");
  if (plain.length !== 6) return false;
  const begin = beginningOf(plain);
  return at > begin - AWAY_MS && at < begin + MONTH_MS + AWAY_MS;
}

function isNear(time: number, at: number): boolean {
  return Math.abs(time - at) < AWAY_MS;
}

function ticksToMs(ticks: bigint): number {
  return Number((ticks - TICKS_1970) / 10_000n);
}
