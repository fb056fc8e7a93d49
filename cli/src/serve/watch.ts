import { randomBytes } from "node:crypto";
import { createWriteStream, existsSync, rmSync, statSync, writeFileSync } from "node:fs";
import { lastBackupAt } from "@rowhouse/server/backup";
import { type Stopwatch, systemClock } from "@rowhouse/server/clock";
import type { Engine } from "@rowhouse/server/engine/engine";
import { LmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { type AnswerPage, OWN_PATH, type Page, pageAnswer } from "@rowhouse/server/http/pages";
import {
  AzureTargets,
  joinReports,
  type TargetsReport,
  type Throttled,
} from "@rowhouse/server/insight/azure-targets";
import { drawHeatMap } from "@rowhouse/server/insight/heat-map";
import { type Insight, joinInsights } from "@rowhouse/server/insight/insight";
import { behindToken, jsonPage } from "@rowhouse/server/insight/insight-pages";
import { PartitionLoad, reportLoad } from "@rowhouse/server/insight/partition-load";
import { PROMETHEUS_TYPE, printMetrics } from "@rowhouse/server/insight/print-metrics";
import { type Metric, partsOf, single } from "@rowhouse/server/insight/prometheus";
import { RECORDING_BYTES_MAX } from "@rowhouse/server/insight/recording";
import {
  type ConnectionCounts,
  connectionMetrics,
  engineMetrics,
  type PeerCounts,
  peerMetrics,
  RequestMetrics,
} from "@rowhouse/server/insight/request-metrics";
import { joinSummaries, ScanBudget, type ScanSummary } from "@rowhouse/server/insight/scan-budget";
import { parseScanRules } from "@rowhouse/server/insight/scan-budget-rules";
import { tracingObserver } from "@rowhouse/server/insight/traces";
import { TrafficRecorder } from "@rowhouse/server/insight/traffic-recorder";
import { type QueueCounts, QueueFigures } from "@rowhouse/server/queue/queue-figures";
import type { Scrub } from "@rowhouse/server/scrub";
import { type NodesOf, withNodes } from "@rowhouse/server/table/partition-nodes";
import type { Gate } from "@rowhouse/server/wire/gate";
import { joinObservers, type Observer } from "@rowhouse/server/wire/observer";
import type { Logger } from "pino";
import { messageOf } from "../message-of.ts";
import { readText } from "../read-text.ts";
import { printScanReport, printTargets } from "../report.ts";
import { gathering, leaveLastPart } from "./gathered-parts.ts";
import { LateWatch } from "./late-watch.ts";
import { scrubMetrics } from "./open-scrub.ts";
import { ProcessMetrics } from "./process-metrics.ts";
import { ownRecording, prepareRecording } from "./recording-files.ts";
import { openFaultGate } from "./watch-faults.ts";
import type { WatchOptions } from "./watch-options.ts";
import { slowInsight, slowObserver } from "./watch-slow.ts";
import { loadTraceApi } from "./watch-traces.ts";

/** The monitoring of a server, and the reports written when it shuts down. */
export interface Watch {
  readonly insight: Insight;
  readonly observer: Observer;
  readonly gate: Gate | undefined;
  readonly pages: readonly Page[];
  /** URLs with the token of pages that need a generated token; nobody could know it otherwise. */
  addresses(tableUrl: string): readonly string[];
  /** Present if an option needs the duration of requests. */
  readonly stopwatch: Stopwatch | undefined;
  /** Present where there is an explorer. */
  readonly forExplorer: LateWatch | undefined;
  close(): Promise<void>;
}

const TOKEN_BYTES = 18;

/** What `/metrics` counts in addition to requests. */
interface Watched {
  readonly engine: Engine;
  readonly memory: PeerCounts;
  readonly open: ConnectionCounts;
  /** Absent where nothing is stored. */
  readonly scrub: Scrub | undefined;
  /** See `OpenedEngine`. */
  readonly durableMachines: () => number;
  readonly nodesOf: NodesOf | undefined;
}

/** The variable that tells workers the token of the pages, if it was generated. */
const WORKERS_TOKEN = "ROWHOUSE_WORKERS_INSIGHT_TOKEN";

/** What watching needs before the first process serves, and after the last one has ended. */
export interface Watching {
  /** For the environment of the processes that serve. */
  readonly environment: Readonly<Record<string, string>>;
  /** Prints and writes the reports, from what each process left: see `leaveLastPart`. */
  report(lastParts: (subject: string) => readonly unknown[]): void;
}

/**
 * Checks rules and files once for all processes that will serve.
 * @throws Error for invalid rules and files that cannot be written
 */
export function prepareWatching(options: WatchOptions): Watching {
  const { scanBudget, scanReport, record: recording } = options;
  if (recording !== undefined) prepareRecording(recording);
  if (scanBudget !== undefined) {
    parsed(scanBudget, parseScanRules);
    // This run may be killed before it writes its report; an old report must not be mistaken for it.
    writeReport(scanReport, "");
    // A device, such as /dev/null, must not be removed.
    if (statSync(scanReport).isFile()) rmSync(scanReport);
  }
  return {
    environment: { [WORKERS_TOKEN]: newToken() },
    report(lastParts) {
      // The workers run the same program as this one, and so leave the same kinds of parts.
      if (isTargeted(options)) reportTargets(lastParts("targets") as readonly TargetsReport[]);
      if (scanBudget !== undefined)
        reportBudget(scanReport, lastParts("scan-budget") as readonly ScanSummary[]);
    },
  };
}

/** Without labels: names of queues are data. All processes count the same queues. */
function queueMetrics({ queues, messages, waitingMs }: QueueCounts): Metric[] {
  return [
    single("rowhouse_queues", "gauge", "Queues of all accounts.", queues, "max"),
    single(
      "rowhouse_queue_messages",
      "gauge",
      "Unexpired messages in all queues, the hidden ones included.",
      messages,
      "max",
    ),
    single(
      "rowhouse_queue_wait_seconds",
      "gauge",
      "How long the message that waits longest has been visible without being received.",
      waitingMs / 1000,
      "max",
    ),
  ];
}

async function backupMetrics(engine: Engine): Promise<Metric[]> {
  const at = await lastBackupAt(engine);
  return [
    single(
      "rowhouse_backup_ended_seconds",
      "gauge",
      "When the last backup of the data folder was complete, in seconds since 1970; 0 if never.",
      (at ?? 0) / 1000,
      "max",
    ),
  ];
}

/** Starts the monitoring that `options` select. @throws Error for invalid rules and files that cannot be written. */
export function openWatch(
  options: WatchOptions & { readonly workers: number; readonly hasExplorer: boolean },
  watched: Watched,
  log: Logger,
  logging: Observer,
): Watch {
  const parts = new WatchParts(logging);
  if (options.faults !== undefined) breakRequests(parts, options.faults);
  watchTargets(parts, options, log);
  if (options.metrics) serveMetrics(parts, watched);
  const load = options.insight ? watchLoad(parts, watched) : undefined;
  if (options.hasExplorer) watchForExplorer(parts, watched.engine, load);
  if (options.record !== undefined) record(parts, options.record, options.workers, log);
  if (options.slowQuery !== undefined) logSlow(parts, options.slowQuery, log);
  if (options.otel) parts.observers.push(tracingObserver(loadTraceApi(), () => Date.now()));
  if (options.scanBudget !== undefined) holdToBudget(parts, options.scanBudget, options, log);
  return watchOf(parts, options);
}

/** The parts of a watch, which each monitoring option adds to. */
class WatchParts {
  // Called in this order: first what may refuse a query before anything is read, last what may refuse to return
  // what was read.
  readonly insights: Partial<Insight>[] = [];
  readonly observers: Observer[];
  /** The path below the server's own, and whether its content is readable without a token. */
  readonly pages: { readonly name: string; readonly open?: true; readonly answer: AnswerPage }[] =
    [];
  /** The sources of the metrics that the page of metrics prints. */
  readonly counted: { metrics(): readonly Metric[] }[] = [];
  readonly closers: (() => void | Promise<void>)[] = [];
  gate: Gate | undefined;
  forExplorer: LateWatch | undefined;

  constructor(logging: Observer) {
    this.observers = [logging];
  }
}

function breakRequests(parts: WatchParts, rules: string): void {
  const gate = parsed(rules, openFaultGate);
  parts.gate = gate;
  parts.counted.push(gate);
}

function watchTargets(
  { insights, counted, pages, closers }: WatchParts,
  options: WatchOptions & { readonly workers: number },
  log: Logger,
): void {
  if (!isTargeted(options)) return;
  const { enforceTargets, workers } = options;
  const mode = enforceTargets ? "enforce" : "what-if";
  const onPlace = (place: Throttled) =>
    log.warn({ place, mode }, "over the cloud's scalability targets");
  const targets = new AzureTargets(mode, onPlace, workers);
  insights.push(targets);
  counted.push(targets);
  const gather = gathering("targets", () => targets.report());
  pages.push({ name: "targets", answer: jsonPage(async () => joinReports(await gather())) });
  closers.push(() =>
    workers > 1 ? leaveLastPart("targets", targets.report()) : reportTargets([targets.report()]),
  );
}

function isTargeted({ enforceTargets, targets }: WatchOptions): boolean {
  return targets !== undefined || enforceTargets === true;
}

function reportTargets(parts: readonly TargetsReport[]): void {
  print(printTargets(joinReports(parts)));
}

function serveMetrics(
  { insights, observers, counted, pages }: WatchParts,
  { engine, memory, open, scrub, durableMachines }: Watched,
): void {
  const metrics = new RequestMetrics();
  insights.push(metrics);
  observers.push(metrics);
  counted.push(metrics);
  const ofProcess = new ProcessMetrics();
  const queues = new QueueFigures(engine, systemClock);
  const own = async () => {
    const ofEngine = engine instanceof LmdbEngine ? engineMetrics(engine.statistics()) : [];
    const ofParts = counted.flatMap((each) => each.metrics());
    const ofScrub = scrub ? scrubMetrics(scrub) : [];
    const ofBackup = engine.path === undefined ? [] : await backupMetrics(engine);
    const durable = single(
      "rowhouse_durable_machines",
      "gauge",
      "Machines on whose disks an acknowledged write is, by the settings of the engine; 2 for more than one.",
      durableMachines(),
      "min",
    );
    const ofStored = [durable, ...queueMetrics(await queues.counts()), ...ofBackup];
    const ofPeers = [...peerMetrics(memory), connectionMetrics(open)];
    const ofServer = [...ofParts, ...ofEngine, ...ofPeers, ...ofScrub, ...ofStored];
    return [...partsOf(ofServer), ...(await ofProcess.parts())];
  };
  const gather = gathering("metrics", own);
  const answer = async () => pageAnswer(200, PROMETHEUS_TYPE, await printMetrics(await gather()));
  pages.push({ name: "metrics", open: true, answer });
}

function watchLoad({ insights, pages }: WatchParts, { engine, nodesOf }: Watched): PartitionLoad {
  const load = new PartitionLoad(systemClock);
  insights.push(load);
  const count = (query: URLSearchParams, name: string, most: number) =>
    Math.min(Math.max(Number(query.get(name)) || 0, 0), most) || undefined;
  const gatherLoad = gathering("partitions", () => load.part());
  const gatherHeat = gathering("heatmap", () => load.heatPart());
  const partitions = jsonPage(async (query) => {
    const report = reportLoad(await gatherLoad(), count(query, "top", 1000));
    if (nodesOf === undefined) return report;
    return { ...report, hottest: await withNodes(engine, nodesOf, report.hottest) };
  });
  const heatMap = jsonPage(async (query) =>
    drawHeatMap(await gatherHeat(), count(query, "rows", 256)),
  );
  pages.push({ name: "partitions", answer: partitions }, { name: "heatmap", answer: heatMap });
  return load;
}

function watchForExplorer(
  parts: WatchParts,
  engine: Engine,
  load: PartitionLoad | undefined,
): void {
  const late = new LateWatch(systemClock, engine, load);
  if (load) late.begin();
  parts.insights.push(late);
  parts.observers.push(late);
  parts.forExplorer = late;
}

function record(
  { insights, observers, closers }: WatchParts,
  file: string,
  workers: number,
  log: Logger,
): void {
  const { recorder, close } = recordTo(ownRecording(file), RECORDING_BYTES_MAX / workers, log);
  insights.push(recorder);
  observers.push(recorder);
  closers.push(close);
}

function logSlow({ insights, observers }: WatchParts, thresholdMs: number, log: Logger): void {
  insights.push(slowInsight(thresholdMs, log));
  observers.push(slowObserver(thresholdMs, log));
}

function holdToBudget(
  { insights, counted, pages, closers }: WatchParts,
  scanBudget: string,
  { scanReport, workers }: WatchOptions & { readonly workers: number },
  log: Logger,
): void {
  const rules = parsed(scanBudget, parseScanRules);
  const budget = new ScanBudget(rules, ({ example: _, ...overrun }) =>
    log.warn({ overrun }, "a query exceeded the scan budget"),
  );
  insights.push(budget);
  counted.push(budget);
  const gather = gathering("scan-budget", () => budget.summary());
  pages.push({ name: "scan-budget", answer: jsonPage(async () => joinSummaries(await gather())) });
  closers.push(() =>
    workers > 1
      ? leaveLastPart("scan-budget", budget.summary())
      : reportBudget(scanReport, [budget.summary()]),
  );
}

function reportBudget(file: string, parts: readonly ScanSummary[]): void {
  const summary = joinSummaries(parts);
  writeReport(file, `${JSON.stringify(summary, null, 2)}\n`);
  print(printScanReport(summary));
}

function writeReport(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (cause) {
    throw new Error(`Cannot write the report ${file}: ${messageOf(cause)}`, { cause });
  }
}

function watchOf(parts: WatchParts, options: WatchOptions): Watch {
  const { insights, observers, pages, closers } = parts;
  const { insightToken, metrics, otel, slowQuery } = options;
  const token = insightToken || process.env[WORKERS_TOKEN] || newToken();
  const isTimed = metrics || otel || slowQuery !== undefined;
  return {
    stopwatch: isTimed ? performance : parts.forExplorer,
    forExplorer: parts.forExplorer,
    insight: joinInsights(insights),
    observer: joinObservers(observers),
    gate: parts.gate,
    pages: pages.map(({ name, open, answer }) => {
      const GET = open ? answer : behindToken(token, answer);
      return { path: `${OWN_PATH}${name}`, methods: { GET } };
    }),
    addresses: (tableUrl) =>
      pages.flatMap(({ name, open }) =>
        open || insightToken ? [] : [`${tableUrl}${OWN_PATH}${name}?token=${token}`],
      ),
    async close() {
      for (const close of closers) await close();
    },
  };
}

function newToken(): string {
  return randomBytes(TOKEN_BYTES).toString("base64url");
}

function print(text: string): void {
  process.stdout.write(text);
}

/** Parses the file of that name if there is one, otherwise the text itself. */
function parsed<Rules>(fileOrText: string, parse: (text: string) => Rules): Rules {
  if (existsSync(fileOrText)) return parse(readText(fileOrText));
  try {
    return parse(fileOrText);
  } catch (cause) {
    // A single word may be the name of a missing file.
    if (!/^\S+$/.test(fileOrText)) throw cause;
    throw new Error(`${messageOf(cause)} There is no file of that name either.`, { cause });
  }
}

/** Records to a file that only its owner may read. A disk that fills up ends the recording, not the server. */
function recordTo(
  file: string,
  bytesMax: number,
  log: Logger,
): { recorder: TrafficRecorder; close: () => Promise<void> } {
  const stream = createWriteStream(file, { flags: "a", mode: 0o600 });
  stream.on("error", (error) => log.error({ err: error, file }, "recording stopped"));
  const write = (bytes: Uint8Array) => {
    if (stream.writable) stream.write(bytes);
  };
  const recorder = new TrafficRecorder(systemClock, write, bytesMax);
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
