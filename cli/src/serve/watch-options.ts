import { InvalidArgumentError, Option } from "commander";
import { notEmpty } from "../not-empty.ts";

/** The monitoring options of `rowhouse serve`. Without them, nothing is monitored. */
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
      'limits on the cost of queries: a JSON file, or rules such as "no table scan; density 0.1 from 100; strict"',
    ),
    new Option("--scan-report <file>", "where to write the scan budget's summary at shutdown")
      .default(SCAN_REPORT_FILE)
      .argParser(notEmpty),
    new Option("--insight", "serve the load of each partition under /_rowhouse/ on the table port"),
    new Option(
      "--insight-token <token>",
      "token that readers of the pages under /_rowhouse/ must send; default: a new one, printed at start",
    )
      .env("ROWHOUSE_INSIGHT_TOKEN")
      .argParser(parseToken),
    new Option("--metrics", "serve Prometheus metrics at /_rowhouse/metrics on the table port"),
    new Option(
      "--slow-query <ms>",
      "log queries and requests that take at least this long",
    ).argParser(parseMs),
    new Option(
      "--targets <cloud>",
      "report where the cloud would have throttled, by its scalability targets",
    ).choices(["azure"]),
    new Option("--enforce-targets", "throttle with 503 and 500 where the cloud would"),
    new Option(
      "--faults <rules>",
      'inject faults: a file, or rules such as "503 on InsertEntity of Orders rate 0.1; delay 200"',
    ),
    new Option(
      "--record <file>",
      "record traffic for rowhouse advise, up to 64 MiB; includes keys and filters",
    ).argParser(notEmpty),
    new Option("--otel", "trace requests with @opentelemetry/api, which must be installed"),
  ];
}

function parseToken(text: string): string {
  if (text.trim() !== "") return text;
  throw new InvalidArgumentError(
    "It must not be empty; leave it out to get a new one, printed at start.",
  );
}

function parseMs(text: string): number {
  if (/^\d{1,7}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be a whole number of milliseconds.");
}
