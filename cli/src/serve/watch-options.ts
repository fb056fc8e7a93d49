import { InvalidArgumentError, Option } from "commander";
import { notEmpty } from "../not-empty.ts";

/** What `rowhouse serve` was asked to watch. Nothing is watched that was not asked for. */
export interface WatchOptions {
  readonly scanBudget?: string;
  readonly scanReport: string;
  readonly insight?: true;
  readonly insightToken?: string;
  readonly metrics?: true;
  readonly slowQuery?: number;
  readonly otel?: true;
  readonly targets?: string;
  readonly enforceTargets?: true;
  readonly faults?: string;
  readonly record?: string;
}

export const SCAN_REPORT_FILE = "rowhouse-scan-report.json";

export function watchOptions(): Option[] {
  return [
    new Option(
      "--scan-budget <rules>",
      'what queries may cost: a JSON file, or rules such as "no table scan; density 0.1 from 100; strict"',
    ),
    new Option("--scan-report <file>", "where the scan budget's summary is written at shutdown")
      .default(SCAN_REPORT_FILE)
      .argParser(notEmpty),
    new Option("--insight", "serve the load of partitions at /rowhouse/ of the table port"),
    new Option(
      "--insight-token <token>",
      "what whoever reads it must send; default a new one, printed at the start",
    )
      .env("ROWHOUSE_INSIGHT_TOKEN")
      .argParser(parseToken),
    new Option("--metrics", "serve counts for Prometheus at /metrics of the table port"),
    new Option("--slow-query <ms>", "log what takes at least so many milliseconds").argParser(
      parseMs,
    ),
    new Option(
      "--targets <cloud>",
      "report where the cloud's scalability targets would have throttled",
    ).choices(["azure"]),
    new Option("--enforce-targets", "throttle there, with 503 and 500, as the cloud does"),
    new Option(
      "--faults <rules>",
      'break requests on purpose: a file, or rules such as "503 on InsertEntity of Orders rate 0.1; delay 200"',
    ),
    new Option(
      "--record <file>",
      "write traffic down for rowhouse advise, 64 MiB at most; keys and filters stand in it",
    ).argParser(notEmpty),
    new Option("--otel", "trace requests with @opentelemetry/api, which must be installed"),
  ];
}

/** Whether anything is to be watched. */
export function isWatching(options: WatchOptions): boolean {
  const { scanBudget, insight, metrics, targets, record } = options;
  return [scanBudget, insight, metrics, targets, record].some((each) => each !== undefined);
}

function parseToken(text: string): string {
  if (text.trim() !== "") return text;
  throw new InvalidArgumentError("It is empty; leave it out for a new one, printed at the start.");
}

function parseMs(text: string): number {
  if (/^\d{1,7}$/.test(text)) return Number(text);
  throw new InvalidArgumentError(`"${text}" is not a number of milliseconds.`);
}
