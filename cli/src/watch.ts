import { createWriteStream, existsSync, readFileSync, writeFileSync } from "node:fs";
import { systemClock } from "@rowhouse/server/clock";
import type { Engine } from "@rowhouse/server/engine/engine";
import { LmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import type { Gate } from "@rowhouse/server/http/gate";
import { joinObservers, type Observer } from "@rowhouse/server/http/observer";
import type { Pages } from "@rowhouse/server/http/pages";
import { AzureTargets } from "@rowhouse/server/insight/azure-targets";
import { FaultGate, parseFaultRules } from "@rowhouse/server/insight/fault-rules";
import { type Insight, joinInsights } from "@rowhouse/server/insight/insight";
import { insightPages, jsonPage, type Page } from "@rowhouse/server/insight/insight-pages";
import { PartitionLoad } from "@rowhouse/server/insight/partition-load";
import { PROMETHEUS_TYPE, printMetrics } from "@rowhouse/server/insight/prometheus";
import { TrafficRecorder } from "@rowhouse/server/insight/recording";
import { engineMetrics, RequestMetrics } from "@rowhouse/server/insight/request-metrics";
import { ScanBudget } from "@rowhouse/server/insight/scan-budget";
import { parseScanRules } from "@rowhouse/server/insight/scan-budget-rules";
import { tracingObserver } from "@rowhouse/server/insight/traces";
import type { Logger } from "pino";
import { printScanReport, printTargets } from "./report.ts";
import type { WatchOptions } from "./watch-options.ts";
import { slowInsight, slowObserver } from "./watch-slow.ts";
import { loadTraceApi } from "./watch-traces.ts";

/** What watches a server, and what is written when it ends. */
export interface Watch {
  readonly insight: Insight;
  readonly observer: Observer;
  readonly gate: Gate | undefined;
  readonly pages: Pages | undefined;
  close(): Promise<void>;
}

/** Opens what `options` ask for. @throws Error for rules that are none */
export function openWatch(
  options: WatchOptions,
  engine: Engine,
  log: Logger,
  logging: Observer,
): Watch {
  const insights: Insight[] = [];
  const observers: Observer[] = [logging];
  const pages = new Map<string, Page>();
  const closers: (() => void | Promise<void>)[] = [];

  // First: what it refuses is no load.
  if (options.targets !== undefined || options.enforceTargets) {
    const mode = options.enforceTargets ? "enforce" : "what-if";
    const targets = new AzureTargets(mode, (place) =>
      log.warn({ place, mode }, "over the cloud's scalability targets"),
    );
    insights.push(targets);
    pages.set(
      "/rowhouse/targets",
      jsonPage(() => targets.report()),
    );
    closers.push(() => {
      process.stdout.write(printTargets(targets.report()));
    });
  }
  if (options.metrics) {
    const metrics = new RequestMetrics();
    insights.push(metrics);
    observers.push(metrics);
    pages.set("/metrics", {
      contentType: PROMETHEUS_TYPE,
      open: true,
      print: () =>
        printMetrics([
          ...metrics.metrics(),
          ...(engine instanceof LmdbEngine ? engineMetrics(engine.statistics()) : []),
        ]),
    });
  }
  if (options.insight) {
    const load = new PartitionLoad(systemClock);
    insights.push(load);
    const count = (query: URLSearchParams, name: string, most: number) =>
      Math.min(Math.max(Number(query.get(name)) || 0, 0), most) || undefined;
    pages.set(
      "/rowhouse/partitions",
      jsonPage((query) => load.report(count(query, "top", 1000))),
    );
    pages.set(
      "/rowhouse/heatmap",
      jsonPage((query) => load.heatMap(count(query, "rows", 256))),
    );
  }
  if (options.record !== undefined) {
    const { recorder, close } = recordTo(options.record, log);
    insights.push(recorder);
    closers.push(close);
  }
  if (options.slowQuery !== undefined) {
    insights.push(slowInsight(options.slowQuery, log));
    observers.push(slowObserver(options.slowQuery, log));
  }
  if (options.otel) observers.push(tracingObserver(loadTraceApi(), () => Date.now()));
  // Last: what it refuses was read all the same.
  if (options.scanBudget !== undefined) {
    const rules = parseScanRules(textOf(options.scanBudget));
    const budget = new ScanBudget(rules, ({ example: _, ...overrun }) =>
      log.warn({ overrun }, "a query is over the scan budget"),
    );
    insights.push(budget);
    pages.set(
      "/rowhouse/scan-budget",
      jsonPage(() => budget.summary()),
    );
    closers.push(() => {
      const summary = budget.summary();
      writeFileSync(options.scanReport, `${JSON.stringify(summary, null, 2)}\n`);
      process.stdout.write(printScanReport(summary));
    });
  }
  return {
    insight: joinInsights(insights),
    observer: joinObservers(observers),
    gate:
      options.faults === undefined
        ? undefined
        : new FaultGate(parseFaultRules(textOf(options.faults))),
    pages: pages.size > 0 ? insightPages({ pages, token: options.insightToken }) : undefined,
    async close() {
      for (const close of closers) await close();
    },
  };
}

/** The file of that name, or else the text itself. */
function textOf(fileOrText: string): string {
  return existsSync(fileOrText) ? readFileSync(fileOrText, "utf8") : fileOrText;
}

/**
 * A new file that only its owner may read. A disk that fills up later ends the recording, not the server.
 * @throws Error when the file cannot be made
 */
function recordTo(
  file: string,
  log: Logger,
): { recorder: TrafficRecorder; close: () => Promise<void> } {
  writeFileSync(file, "", { mode: 0o600 });
  const stream = createWriteStream(file, { flags: "a" });
  stream.on("error", (error) => log.error({ err: error, file }, "the recording ends here"));
  const recorder = new TrafficRecorder(systemClock, (text) => {
    if (stream.writable) stream.write(text);
  });
  return {
    recorder,
    close: () => {
      recorder.end();
      return new Promise((resolve) => {
        stream.once("close", resolve);
        if (stream.closed) resolve();
        else stream.end();
      });
    },
  };
}
