import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { type Insight, joinInsights } from "@rowhouse/server/insight/insight";
import { ScanBudget } from "@rowhouse/server/insight/scan-budget";
import { parseScanRules } from "@rowhouse/server/insight/scan-budget-rules";
import type { Logger } from "pino";
import { printScanReport } from "./report.ts";
import type { WatchOptions } from "./watch-options.ts";

/** What watches a server, and what is written when it ends. */
export interface Watch {
  readonly insight: Insight;
  close(): Promise<void>;
}

/** Opens what `options` ask for. @throws Error for rules that are none */
export function openWatch(options: WatchOptions, log: Logger): Watch {
  const insights: Insight[] = [];
  const closers: (() => void | Promise<void>)[] = [];
  if (options.scanBudget !== undefined) {
    const rules = parseScanRules(textOf(options.scanBudget));
    const budget = new ScanBudget(rules, ({ example: _, ...overrun }) =>
      log.warn({ overrun }, "a query is over the scan budget"),
    );
    insights.push(budget);
    closers.push(() => {
      const summary = budget.summary();
      writeFileSync(options.scanReport, `${JSON.stringify(summary, null, 2)}\n`);
      process.stdout.write(printScanReport(summary));
    });
  }
  return {
    insight: joinInsights(insights),
    async close() {
      for (const close of closers) await close();
    },
  };
}

/** The file of that name, or else the text itself. */
function textOf(fileOrText: string): string {
  return existsSync(fileOrText) ? readFileSync(fileOrText, "utf8") : fileOrText;
}
