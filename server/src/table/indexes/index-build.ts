import { accountPartition } from "../../catalog/account-ids.ts";
import { KEY_SPACES } from "../../catalog/key-spaces.ts";
import type { Engine, Key } from "../../engine/engine.ts";
import { encodeId } from "../../engine/key-codec.ts";
import type { KeyPosition } from "../../query/plan.ts";

/** Entities per second at which an index is built, unless declared otherwise. */
export const BUILD_RATE = 20_000;

/**
 * How far the building of an index has come. Stored in the commit of the entries it counts, so a build continues where
 * it was killed.
 */
export interface BuildProgress {
  /** Entities before this position are done. */
  readonly next: KeyPosition;
  readonly entities: number;
  readonly entries: number;
  /** Entities there were when it began; undefined on engines that would have to send all of them to count them. */
  readonly total?: number | undefined;
  /** When the first batch began, in milliseconds since 1970. */
  readonly startedAt: number;
}

export interface StoredProgress extends BuildProgress {
  readonly version: number;
}

/** At the pace so far; undefined if it is not known how much there is to do. */
export function secondsLeft(
  { entities, total, startedAt }: BuildProgress,
  nowMs: number,
): number | undefined {
  if (total === undefined || entities === 0) return undefined;
  const secondsEach = (nowMs - startedAt) / 1000 / entities;
  return Math.max(0, Math.ceil((total - entities) * secondsEach));
}

export function progressKey(accountId: number, indexId: number): Key {
  return {
    partition: accountPartition(KEY_SPACES.indexBuilds, accountId),
    sort: encodeId(indexId),
  };
}

/** Undefined if the build has not begun, or is over. */
export async function readProgress(engine: Engine, key: Key): Promise<StoredProgress | undefined> {
  const [entry] = await engine.get([key]);
  if (!entry) return undefined;
  const progress = JSON.parse(Buffer.from(entry.value).toString("utf8")) as BuildProgress;
  return { ...progress, version: entry.version };
}

export function encodeProgress(progress: BuildProgress): Uint8Array {
  return Buffer.from(JSON.stringify(progress), "utf8");
}

/** After the index is ready, or gone: whoever still builds it fails on its premise. */
export async function forgetBuild(
  engine: Engine,
  accountId: number,
  indexId: number,
): Promise<void> {
  const key = progressKey(accountId, indexId);
  const [entry] = await engine.get([key]);
  if (!entry) return;
  await engine.commit({
    version: engine.nextVersion(),
    checks: [],
    puts: [],
    deletes: [key],
  });
}
