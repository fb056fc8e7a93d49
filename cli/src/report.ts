import { existsSync } from "node:fs";
import type { TargetsReport } from "@rowhouse/server/insight/azure-targets";
import type { ScanSummary } from "@rowhouse/server/insight/scan-budget";
import { terminalText } from "@rowhouse/server/insight/terminal-text";
import type { Command } from "commander";
import { notEmpty } from "./not-empty.ts";
import { readText } from "./read-text.ts";
import { SCAN_REPORT_FILE } from "./serve/watch-options.ts";

export function addReportCommand(program: Command): void {
  program
    .command("report")
    .description("print the summary of a scan budget; exits with 1 if queries exceeded it")
    .argument("[file]", "the file that serve --scan-budget wrote", notEmpty, SCAN_REPORT_FILE)
    .option("--json", "print JSON")
    .action((file: string, { json }: { json?: true }) => {
      const { text, exitCode } = reportOf(file, json ? "json" : "text");
      process.stdout.write(text);
      process.exitCode = exitCode;
    });
}

/** What the command prints, and its exit code. @throws Error if the file is missing or not a report. */
export function reportOf(
  file: string,
  format: "text" | "json",
): { readonly text: string; readonly exitCode: 0 | 1 } {
  if (!existsSync(file)) {
    throw new Error(`${file} does not exist; serve --scan-budget writes it at shutdown.`);
  }
  const summary = parsed(readText(file));
  if (!isSummary(summary))
    throw new Error(
      `${file} is not a scan budget report; rowhouse serve --scan-budget RULES --scan-report FILE writes one.`,
    );
  return {
    text: format === "json" ? `${JSON.stringify(summary, null, 2)}\n` : printScanReport(summary),
    exitCode: summary.overBudget > 0 ? 1 : 0,
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Checks only the counts and the list: the server writes whole reports, and other files lack these members. */
function isSummary(value: unknown): value is ScanSummary {
  return (
    typeof value === "object" &&
    value !== null &&
    "queries" in value &&
    typeof value.queries === "number" &&
    "overBudget" in value &&
    typeof value.overBudget === "number" &&
    "overruns" in value &&
    Array.isArray(value.overruns)
  );
}

export function printScanReport(summary: ScanSummary): string {
  const { queries, overBudget, refused, overruns } = summary;
  const lines = [
    `scan budget: ${queries} pages of queries, ${overBudget} over budget${refused > 0 ? `, ${refused} of them refused` : ""}`,
  ];
  for (const each of overruns) {
    const density =
      each.entitiesRead > 0
        ? `, read ${each.entitiesRead} entities to return ${each.entitiesReturned}`
        : "";
    lines.push(
      "",
      `${each.account}/${each.table}: ${each.class}${each.shape ? ` where ${shortened(each.shape)}` : ""}`,
      `  ${times(each.count)} over "${each.reason}"${density}`,
      `  for example: ${shortened(each.plan)}`,
      `  ${each.remedy}`,
    );
  }
  return terminalText(lines);
}

/** Only the text output is shortened; `--json` prints everything. */
function shortened(text: string): string {
  return text.length <= TEXT_LENGTH_MAX ? text : `${text.slice(0, TEXT_LENGTH_MAX)}...`;
}

const TEXT_LENGTH_MAX = 300;

function times(count: number): string {
  return count === 1 ? "once" : `${count} times`;
}

export function printTargets(report: TargetsReport): string {
  const { mode, requests, entities, throttled, places } = report;
  const verb = mode === "enforce" ? "throttled" : "that the cloud would have throttled";
  const lines = [`targets: ${requests} requests, ${throttled} ${verb}; ${entities} entities`];
  for (const { where, code, firstAt, count } of places) {
    lines.push(`  ${code} ${times(count)} at ${where}, first ${new Date(firstAt).toISOString()}`);
  }
  return terminalText(lines);
}
