import { CHECKLIST, judgeLine, type LineVerdict } from "./checklist.ts";
import { findConnections, findOldClients, PageAccess } from "./client-rules.ts";
import { ManyPartitions } from "./many-partitions.ts";
import { AppendOnlyKeys, HotPartitions, OnePartition, OverTargets } from "./partition-rules.ts";
import {
  findBulkReads,
  findOrOverKeys,
  findScans,
  findSeries,
  findWideAnswers,
  LookupsAfterLists,
} from "./query-rules.ts";
import { QueryShapes } from "./query-shapes.ts";
import { readRecording, type TrafficListener } from "./read-recording.ts";
import { Retries } from "./retries.ts";
import type { Finding, Observed, Rule, RuleName, TableData } from "./rule.ts";
import { TableNames } from "./table-names.ts";
import { findLargeValues, ReadBeforeWrite, SingleWrites } from "./write-rules.ts";

export interface Advice {
  readonly events: number;
  readonly recording: Observed["ending"];
  readonly findings: readonly Finding[];
  readonly lines: readonly LineVerdict[];
}

/**
 * Works through the checklist. The same recording always gives the same advice.
 * @param recording its lines; see `readRecording`
 * @param data by `account/table`; empty when no data was given
 */
export function advise(
  recording: Iterable<string>,
  data: ReadonlyMap<string, TableData> = new Map(),
): Advice {
  const shapes = new QueryShapes();
  const rules = Object.values(openRules(shapes));
  const counts = { queries: 0, writes: 0, refusals: 0 };
  const tables = new TableNames(data.keys());
  const end = readRecording(recording, tellAll([shapes, ...rules], counts), tables);
  const observed: Observed = { ...end, ...counts, data, tables };
  const findings = rules.flatMap((rule) => rule.findings(observed));
  const found = new Set(findings.map(({ rule }) => rule));
  return {
    events: observed.queries + observed.writes,
    recording: observed.ending,
    findings,
    lines: CHECKLIST.map((line) => judgeLine(line, observed, found)),
  };
}

function tellAll(
  listeners: readonly TrafficListener[],
  counts: { queries: number; writes: number; refusals: number },
): TrafficListener {
  return {
    queried(query) {
      counts.queries++;
      for (const each of listeners) each.queried?.(query);
    },
    wrote(write) {
      counts.writes++;
      for (const each of listeners) each.wrote?.(write);
    },
    refused(refusal) {
      counts.refusals++;
      for (const each of listeners) each.refused?.(refusal);
    },
  };
}

/** In the order in which findings are reported. */
function openRules(shapes: QueryShapes): Readonly<Record<RuleName, Rule>> {
  return {
    "over-targets": new OverTargets(),
    "hot-partition": new HotPartitions(),
    "append-only-keys": new AppendOnlyKeys(),
    "one-partition": new OnePartition(),
    "many-partitions": new ManyPartitions(),
    scan: { findings: () => findScans(shapes) },
    "or-over-keys": { findings: () => findOrOverKeys(shapes) },
    "wide-answers": { findings: () => findWideAnswers(shapes) },
    "n-plus-one": new LookupsAfterLists(shapes),
    "single-writes": new SingleWrites(),
    "read-before-write": new ReadBeforeWrite(),
    retries: new Retries(),
    "series-as-entities": { findings: (observed) => findSeries(shapes, observed) },
    "bulk-reads": { findings: () => findBulkReads(shapes) },
    "large-values": { findings: findLargeValues },
    connections: { findings: findConnections },
    "page-access": new PageAccess(),
    "old-clients": { findings: findOldClients },
  };
}
