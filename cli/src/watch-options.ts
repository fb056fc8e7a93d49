import { Option } from "commander";

/** What `rowhouse serve` was asked to watch. Nothing is watched that was not asked for. */
export interface WatchOptions {
  readonly scanBudget?: string;
  readonly scanReport: string;
}

export const SCAN_REPORT_FILE = "rowhouse-scan-report.json";

export function watchOptions(): Option[] {
  return [
    new Option(
      "--scan-budget <rules>",
      'what queries may cost: a JSON file, or rules such as "no table scan; density 0.1 from 100; strict"',
    ),
    new Option(
      "--scan-report <file>",
      "where the scan budget's summary is written at shutdown",
    ).default(SCAN_REPORT_FILE),
  ];
}

/** Whether anything is to be watched. */
export function isWatching(options: WatchOptions): boolean {
  return options.scanBudget !== undefined;
}
