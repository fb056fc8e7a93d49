import { createWriteStream, existsSync, readFileSync, writeFileSync } from "node:fs";
import { systemClock } from "@rowhouse/server/clock";
import type { Engine } from "@rowhouse/server/engine/engine";
import { LmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import type { Gate } from "@rowhouse/server/http/gate";
import { joinObservers, type Observer } from "@rowhouse/server/http/observer";
import type { Pages } from "@rowhouse/server/http/pages";
import { AzureTargets, type Throttled } from "@rowhouse/server/insight/azure-targets";
import { DeferredWatchers, type Watcher } from "@rowhouse/server/insight/deferred-watchers";
import { FaultGate, parseFaultRules } from "@rowhouse/server/insight/fault-rules";
import { type Insight, joinInsights } from "@rowhouse/server/insight/insight";
import { insightPages, jsonPage, type Page } from "@rowhouse/server/insight/insight-pages";
import { PartitionLoad } from "@rowhouse/server/insight/partition-load";
import { type Metric, PROMETHEUS_TYPE, printMetrics } from "@rowhouse/server/insight/prometheus";
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
  /** There when somebody asks how long requests took. */
  readonly stopwatch: (() => number) | undefined;
  close(): Promise<void>;
}

/** Logs say at the latest so much later what was seen. */
const DRAIN_MS = 1000;

/** Opens what `options` ask for. @throws Error for rules that are none */
export function openWatch(
  options: WatchOptions & { readonly workers: number },
  engine: Engine,
  log: Logger,
  logging: Observer,
): Watch {
  // Told in this order: those that refuse before anything is read, all that only look, and those that
  // refuse to give what was read.
  const first: Partial<Insight>[] = [];
  const looking: Watcher[] = [];
  const last: Partial<Insight>[] = [];
  const observers: Observer[] = [logging];
  const pages = new Map<string, Page>();
  const counted: { metrics(): readonly Metric[] }[] = [];
  const closers: (() => void | Promise<void>)[] = [];

  if (options.targets !== undefined || options.enforceTargets) {
    const mode = options.enforceTargets ? "enforce" : "what-if";
    const onPlace = (place: Throttled) =>
      log.warn({ place, mode }, "over the cloud's scalability targets");
    const targets = new AzureTargets(mode, onPlace, options.workers);
    (mode === "enforce" ? first : looking).push(targets);
    counted.push(targets);
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
    looking.push(metrics);
    observers.push(metrics);
    counted.push(metrics);
    pages.set("/metrics", {
      contentType: PROMETHEUS_TYPE,
      open: true,
      print: () =>
        printMetrics([
          ...counted.flatMap((each) => each.metrics()),
          ...(engine instanceof LmdbEngine ? engineMetrics(engine.statistics()) : []),
        ]),
    });
  }
  if (options.insight) {
    const load = new PartitionLoad(systemClock);
    looking.push(load);
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
    looking.push(recorder);
    observers.push(recorder);
    closers.push(close);
  }
  if (options.slowQuery !== undefined) {
    looking.push(slowInsight(options.slowQuery, log));
    observers.push(slowObserver(options.slowQuery, log));
  }
  if (options.otel) observers.push(tracingObserver(loadTraceApi(), () => Date.now()));
  if (options.scanBudget !== undefined) {
    const rules = parseScanRules(textOf(options.scanBudget));
    const budget = new ScanBudget(rules, ({ example: _, ...overrun }) =>
      log.warn({ overrun }, "a query is over the scan budget"),
    );
    (rules.strict ? last : looking).push(budget);
    counted.push(budget);
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
  const deferred = new DeferredWatchers(looking);
  const timer = setInterval(() => deferred.drain(), DRAIN_MS).unref();
  const isTimed = options.metrics || options.otel || options.slowQuery !== undefined;
  return {
    stopwatch: isTimed ? () => performance.now() : undefined,
    insight: joinInsights([...first, ...(looking.length > 0 ? [deferred] : []), ...last]),
    observer: joinObservers(observers),
    gate:
      options.faults === undefined
        ? undefined
        : new FaultGate(parseFaultRules(textOf(options.faults))),
    pages:
      pages.size > 0
        ? insightPages({ pages, token: options.insightToken, prepare: () => deferred.drain() })
        : undefined,
    async close() {
      clearInterval(timer);
      deferred.drain();
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
  const recorder = new TrafficRecorder(systemClock, (bytes) => {
    if (stream.writable) stream.write(bytes);
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
