/** Numbers and sizes in words that fit a line. */

export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

/** `1 entity`, `2 entities`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  const units = ["KB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(value) / 3), units.length);
  const scaled = value / 1000 ** power;
  return `${scaled < 10 ? scaled.toFixed(1) : Math.round(scaled)} ${units[power - 1]}`;
}

/** `1.2K`, as a cell states the length of what it does not show. */
export function shortCount(value: number): string {
  if (value < 1000) return String(value);
  const scaled = value / 1000;
  return scaled < 10 ? `${scaled.toFixed(1)}K` : `${Math.round(scaled)}K`;
}

/** How long ago, of milliseconds since 1970. */
export function age(at: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - at) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  return `${Math.round(seconds / 3600)} h ago`;
}

/** A share, of which only nothing is 0 % and only all is 100 %. */
export function percent(share: number): string {
  if (share > 0 && share < 0.01) return "< 1 %";
  if (share > 0.99 && share < 1) return "> 99 %";
  return `${Math.round(100 * share)} %`;
}
