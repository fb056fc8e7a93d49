import { setTimeout as pause } from "node:timers/promises";
import { decodeEntity } from "@rowhouse/protocol/entity-json";
import type { Refused } from "@rowhouse/protocol/entity-writes";
import type { Checkpoint } from "./checkpoint.ts";
import { divideTable, type KeyRangeFilter } from "./key-ranges.ts";
import { type RawEntity, withoutEtag } from "./raw-entity.ts";
import { bothFilters, type Continuation, createTable, readPage } from "./read-table.ts";
import type { TableConnection } from "./table-endpoint.ts";
import type { TransferProgress } from "./transfer-progress.ts";
import { type Change, writeChanges } from "./write-table.ts";

export interface CopyOptions {
  readonly from: TableConnection;
  readonly to: TableConnection;
  readonly table: string;
  readonly where: string | undefined;
  /** How many ranges are copied side by side. */
  readonly parallel: number;
  readonly pace: Pace;
  readonly progress: TransferProgress;
  /** Reads and checks everything, and writes nothing. */
  readonly dryRun: boolean;
  readonly onRefused: (refused: Refused<Change>) => void;
}

export interface CopiedTable {
  ranges: CopiedRange[];
  entities: number;
}

interface CopiedRange {
  readonly range: KeyRangeFilter | null;
  next: Continuation | null;
  done: boolean;
}

/** How far each table of a copy has come. */
export type CopyState = Record<string, CopiedTable>;

/**
 * Copies a table, a page of each range at a time. A page counts once the destination has acknowledged all of it; after
 * a kill at most one page of each range is written again, which changes nothing: entities are replaced.
 * @returns how many entities were copied, those before a kill included
 */
export async function copyTable(
  options: CopyOptions,
  state: CopyState,
  checkpoint: Checkpoint<CopyState>,
): Promise<number> {
  const { from, to, table, where, parallel, dryRun } = options;
  if (!dryRun) await createTable(to, table);
  let copied = state[table];
  if (copied === undefined) {
    const ranges = await divideTable(from, table, where, parallel > 1 ? parallel * 4 : 1);
    copied = {
      entities: 0,
      ranges: ranges.map((range) => ({ range: range ?? null, next: null, done: false })),
    };
    state[table] = copied;
    checkpoint.write(state);
  }
  const left = copied.ranges.filter(({ done }) => !done);
  const work = async () => {
    for (let range = left.shift(); range !== undefined; range = left.shift()) {
      await copyRange(options, copied, range, () => checkpoint.write(state));
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
  return copied.entities;
}

async function copyRange(
  options: CopyOptions,
  copied: CopiedTable,
  range: CopiedRange,
  save: () => void,
): Promise<void> {
  const { from, to, table, where, pace, progress, dryRun, onRefused } = options;
  const filter = bothFilters(range.range ?? undefined, where);
  while (!range.done) {
    const page = await readPage(from, { table, filter, from: range.next ?? undefined });
    const changes = page.entities.map(changeOf);
    await pace.wait(changes.length);
    if (!dryRun) {
      for (const refused of await writeChanges(to, table, "replace", changes)) onRefused(refused);
    }
    copied.entities += changes.length;
    range.next = page.next ?? null;
    range.done = page.next === undefined;
    progress.add(changes.length);
    save();
  }
}

/** @throws ServiceError for an entity that breaks a rule of the service */
export function changeOf(raw: RawEntity): Change {
  const entity = withoutEtag(raw);
  const { partitionKey, rowKey } = decodeEntity(entity);
  return { partitionKey, rowKey, entity };
}

/** Spreads entities over time. */
export class Pace {
  readonly #perSecond: number;
  #freeAt = 0;

  /** @param perSecond Infinity for no limit */
  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  async wait(entities: number): Promise<void> {
    if (this.#perSecond === Number.POSITIVE_INFINITY) return;
    const now = performance.now();
    const at = Math.max(now, this.#freeAt);
    this.#freeAt = at + (entities * 1000) / this.#perSecond;
    if (at > now) await pause(at - now);
  }
}
