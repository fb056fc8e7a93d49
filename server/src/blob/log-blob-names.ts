import { LOG_KINDS, type LogBatch, type LogEntry } from "../insight/analytics-log.ts";
import type { Metadata } from "../wire/metadata.ts";

/**
 * Names and metadata of the analytics log's blobs. Names sort in the order of their hours.
 * Source: "Storage Analytics logging".
 */

const NUMBER_DIGITS = 6;
const SUFFIX = ".log";

/** `table/2026/11/20/1400/`, for an hour given by its beginning. */
export function hourPrefix({ service, hour }: Pick<LogBatch, "service" | "hour">): string {
  const [date, time] = new Date(hour).toISOString().split("T");
  return `${service}/${date!.replaceAll("-", "/")}/${time!.slice(0, 2)}00/`;
}

/** `table/2026/11/20/1400/000000.log` */
export function logBlobName(place: Pick<LogBatch, "service" | "hour">, number: number): string {
  return `${hourPrefix(place)}${String(number).padStart(NUMBER_DIGITS, "0")}${SUFFIX}`;
}

export function logBlobNumber(name: string): number {
  return Number(name.slice(name.lastIndexOf("/") + 1, -SUFFIX.length));
}

export function logMetadata(entries: readonly LogEntry[]): Metadata {
  const kinds = LOG_KINDS.filter((kind) => entries.some((entry) => entry.kind === kind));
  let start = Number.POSITIVE_INFINITY;
  let end = 0;
  for (const { at } of entries) {
    start = Math.min(start, at);
    end = Math.max(end, at);
  }
  return [
    ["LogType", kinds.join(",")],
    ["LogVersion", "1.0"],
    ["StartTime", printSecond(start)],
    ["EndTime", printSecond(end)],
  ];
}

/** `2026-11-20T14:05:30Z` */
function printSecond(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}
