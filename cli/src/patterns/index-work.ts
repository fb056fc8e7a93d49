import type { AnyEntity, Database } from "@rowhouse/patterns";
import type { BuildProgress } from "@rowhouse/patterns/index-life-cycle";
import type { VerifyProgress, VerifyReport } from "@rowhouse/patterns/index-scrub";
import { alignColumns, countOf, type Outcome, type Progress } from "./outcome.ts";
import { kindOf } from "./record.ts";
import { codeOf, indexesOf, listOf, type Schema, type Target, targetOf } from "./schema.ts";
import { type ScrubState, ScrubStateFile } from "./scrub-state.ts";

/** The input of all work on indexes. */
export interface IndexWork {
  readonly schema: Schema;
  readonly database: Database;
  readonly signal: AbortSignal;
  readonly progress: Progress;
}

export const RATE = 200;

export async function showStates(work: IndexWork, name: string): Promise<Outcome> {
  const target = targetOf(work.schema, name);
  const states = await Promise.all(
    indexesOf(target).map(async (index) => {
      const cycle = await lifeCycle(work, target, index);
      const state = await cycle?.state().catch((error) => {
        if (codeOf(error) !== "validation-failed") throw error;
        return "redefined" as const;
      });
      const registered = (await cycle?.isRegistered()) ?? false;
      return { index: nameOf(target, index), state: state ?? "transactional", registered };
    }),
  );
  return {
    lines: alignColumns(
      states.map(({ index, state, registered }) => [index, state, noteOn(state, registered)]),
    ),
    json: states,
    found: states.some(({ state }) => state === "redefined"),
  };
}

function noteOn(state: string, registered: boolean): string {
  if (state === "redefined")
    return "(another definition is registered: declare it under a new name)";
  return registered || state === "transactional"
    ? ""
    : "(not registered: refused over existing entities, unless it is trusted)";
}

export interface BuildOptions {
  readonly rate: number;
  readonly dryRun?: true;
  readonly register?: true;
  /** The number of shards, for a build shared with other processes. */
  readonly shards?: number;
}

/** Builds an index, continuing where an earlier build ended. */
export async function buildIndex(
  work: IndexWork,
  name: string,
  { rate, dryRun, register, shards }: BuildOptions,
): Promise<Outcome> {
  const { database, signal } = work;
  const target = targetOf(work.schema, name);
  const index = oneOf(target);
  const cycle = await mustHaveLifeCycle(work, target, index);
  const { PROPAGATION_MS } = await work.schema.library.load("@rowhouse/patterns/index-life-cycle");
  const registered = await cycle.isRegistered();
  const state = registered || !register ? await cycle.state() : "disabled";
  // Reading only keys and types costs little compared with the build.
  const entities = await countEntities(database, target.entity, signal);
  const seconds = Math.ceil(entities / rate) + (state === "disabled" ? PROPAGATION_MS / 1000 : 0);
  if (dryRun) {
    const requests = entities * requestsForEach(target.entity, index);
    const isHidden = !registered && register === true;
    return describeEstimate({ index: name, state, entities, requests, seconds }, rate, isHidden);
  }
  if (!registered && !register) {
    throw new Error(
      `${name} is not registered: use --register, which hides it from readers until it is built.`,
    );
  }
  if (!registered) {
    await cycle.disable().catch((error) => {
      // Another process that runs this command has already registered it.
      if (codeOf(error) !== "conflict") throw error;
    });
  }
  work.progress(`${name} was ${state}; ${entities} entities, about ${timeOf(seconds)}`);
  const options = { rate, signal, onProgress: paceTeller(work, entities, rate) };
  const report = await cycle.build({ ...options, ...(shards !== undefined && { shards }) });
  return describeBuild(name, await cycle.state(), report);
}

/** The estimated cost of a build. */
interface BuildEstimate {
  readonly index: string;
  readonly state: string;
  readonly entities: number;
  readonly requests: number;
  readonly seconds: number;
}

function describeEstimate(estimate: BuildEstimate, rate: number, isHidden: boolean): Outcome {
  const { index, state, entities, requests, seconds } = estimate;
  const lines = [
    isHidden
      ? `${index} is not registered; the build would hide it from readers until it is complete.`
      : `${index} is ${state}.`,
    `${entities} entities, about ${requests} requests and ${timeOf(seconds)} at ${rate} entities per second.`,
  ];
  return { lines, json: estimate, found: false };
}

/** Reports the speed of a build and the time it still needs. */
function paceTeller({ database, progress }: IndexWork, total: number, rate: number) {
  let first: { readonly done: number; readonly atMs: number } | undefined;
  return ({ done }: { readonly done: number }) => {
    const atMs = database.clock.now();
    // Leaves out the wait for all writers, and entities of an earlier build.
    first ??= { done, atMs };
    const elapsedS = Math.max(0.001, (atMs - first.atMs) / 1000);
    const speed = Math.max(1, Math.round((done - first.done) / elapsedS) || rate);
    const left = timeOf(Math.max(0, total - done) / speed);
    progress(`${done} of ${total} entities, ${speed} per second, ${left} to go`);
  };
}

function describeBuild(index: string, state: string, report: BuildProgress): Outcome {
  const { done, written, errors, duplicates } = report;
  return {
    lines: [
      `${index} is ${state}: ${done} entities.`,
      ...duplicates.map((base) => `  ${base}: another entity holds its value`),
      ...(errors > duplicates.length ? [`  and ${errors - duplicates.length} more`] : []),
    ],
    json: { index, state, entities: done, entries: written, errors, duplicates },
    found: errors > 0,
  };
}

export interface ScrubOptions {
  /** From 0 to 1. */
  readonly sample?: number;
  /** Maximum entities and entries per second. */
  readonly rate?: number;
  /** The file to store progress in, and to continue from if it exists. */
  readonly resume?: string;
}

export async function scrubIndexes(
  work: IndexWork,
  name: string,
  verb: "verify" | "repair",
  { sample, rate, resume }: ScrubOptions,
): Promise<Outcome> {
  const target = targetOf(work.schema, name);
  const { verifyIndex, repairIndex } = await work.schema.library.load(
    "@rowhouse/patterns/index-scrub",
  );
  const scrub = verb === "verify" ? verifyIndex : repairIndex;
  const file = resume === undefined ? undefined : new ScrubStateFile(resume, `${verb} ${name}`);
  let state: ScrubState = (await file?.read()) ?? { reports: [] };
  const left: string[] = [];
  for (const index of indexesOf(target)) {
    const called = nameOf(target, index);
    const isDone = state.reports.some((report) => report.index === called);
    const cycle = await lifeCycle(work, target, index);
    if (isDone || !cycle) continue;
    const kept = await cycle.state();
    if (kept === "disabled" || kept === "retiring") {
      left.push(`${called} is ${kept}: its entries are not maintained`);
      continue;
    }
    const from = state.current?.index === called ? state.current.progress : undefined;
    work.progress(from ? `${verb} ${called}, resuming where it stopped` : `${verb} ${called}`);
    const report = await scrub(work.database, target.entity, index, {
      signal: work.signal,
      ...(sample !== undefined && { sample }),
      ...(rate !== undefined && { rate }),
      ...(from && { from }),
      onProgress(progress) {
        file?.write({ ...state, current: { index: called, progress } });
        work.progress(`${verb} ${called}: ${describeProgress(progress)}`);
      },
    });
    state = { reports: [...state.reports, { index: called, ...report }] };
    file?.write(state);
  }
  const { reports } = state;
  if (reports.length === 0) {
    throw new Error(`${left.join("; ") || `${name} has no index with entries of its own`}.`);
  }
  await file?.remove();
  return {
    lines: [...reports.flatMap((report) => describeReport(report, verb)), ...left],
    json: reports,
    found: reports.some((report) => remainingIn(report, verb) > 0),
  };
}

/** After a repair, duplicates and rows too young to judge remain. */
function remainingIn(report: VerifyReport, verb: "verify" | "repair"): number {
  return verb === "verify" ? findingsIn(report) : report.duplicate + report.young;
}

function findingsIn({ missing, wrong, dangling, duplicate }: VerifyReport): number {
  return missing + wrong + dangling + duplicate;
}

function describeProgress({ report }: VerifyProgress): string {
  const { entities, entries } = report;
  return `${entities} entities and ${entries} entries read, ${countOf(findingsIn(report), "problem")} found`;
}

function describeReport(
  report: ScrubState["reports"][number],
  verb: "verify" | "repair",
): string[] {
  const { index, repairRequests } = report;
  const { entities, entries, missing, wrong, dangling, duplicate, young, examples } = report;
  return [
    `${index}: ${entities} entities and ${entries} entries; ${missing} missing, ${wrong} wrong, ${dangling} dangling, ${duplicate} duplicate, ${young} too young to judge`,
    ...examples.map(
      ({ kind, base, entry }) =>
        `  ${kind}: ${base.partitionKey} | ${base.rowKey}, entry ${entry.partitionKey} | ${entry.rowKey}`,
    ),
    ...(verb === "verify" && repairRequests > 0
      ? [`  a repair needs about ${countOf(repairRequests, "more request")}`]
      : []),
  ];
}

export async function retireIndex(work: IndexWork, name: string): Promise<Outcome> {
  const target = targetOf(work.schema, name);
  const cycle = await mustHaveLifeCycle(work, target, oneOf(target));
  const control = await work.schema.library.load("@rowhouse/patterns/index-life-cycle");
  await work.database.tables.createTable(control.CONTROL_TABLE);
  const seconds = (2 * control.PROPAGATION_MS) / 1000;
  work.progress(
    `${name} is ${await cycle.state()}; readers and writers stop using it within ${seconds} s`,
  );
  await cycle.retire({ signal: work.signal });
  const state = await cycle.state();
  return {
    lines: [`${name} is ${state}; its entries are deleted.`],
    json: { index: name, state },
    found: false,
  };
}

/** Undefined for an index that is always written with its entities and needs no life cycle. */
async function lifeCycle({ schema, database }: IndexWork, { entity }: Target, index: string) {
  const { indexLifeCycle } = await schema.library.load("@rowhouse/patterns/index-life-cycle");
  const keeper = entity.indexes[index]?.follow({ session: database, entity, name: index }).keeper;
  return keeper && indexLifeCycle(database, entity, index);
}

async function mustHaveLifeCycle(work: IndexWork, target: Target, index: string) {
  const cycle = await lifeCycle(work, target, index);
  if (cycle) return cycle;
  throw new Error(`${nameOf(target, index)} has no entries of its own to build.`);
}

function oneOf(target: Target): string {
  const [index] = indexesOf(target);
  if (target.part !== undefined && index !== undefined) return index;
  const names = indexesOf(target).map((each) => nameOf(target, each));
  throw new Error(`${target.entity.name} is an entity; name one of its indexes: ${listOf(names)}.`);
}

function nameOf({ entity }: Target, index: string): string {
  return `${entity.name}.${index}`;
}

async function countEntities(
  { tables }: Database,
  { rows, table }: AnyEntity,
  signal: AbortSignal,
): Promise<number> {
  let count = 0;
  let continuation: Parameters<typeof tables.query>[1]["continuation"];
  do {
    signal.throwIfAborted();
    const page = await tables.query(table, {
      select: [rows.typeProperty],
      ...(continuation && { continuation }),
    });
    for (const { partitionKey, rowKey, properties } of page.entities) {
      const isOurs = rows.versionOf(properties) !== undefined;
      if (isOurs && rows.partition.decode(partitionKey) && rows.row.decode(rowKey)) count++;
    }
    continuation = page.continuation;
  } while (continuation);
  return count;
}

/** For a sibling index, a build reads base and entry and writes both at once; for a remote one, it reads twice. */
function requestsForEach(entity: AnyEntity, index: string): number {
  return kindOf(entity.indexes[index]!) === "remote" ? 4 : 3;
}

function timeOf(seconds: number): string {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  if (seconds < 5400) return `${Math.ceil(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
