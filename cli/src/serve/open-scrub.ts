import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Awaitable, whenReady } from "@rowhouse/server/awaitable";
import { systemClock } from "@rowhouse/server/clock";
import { CONTENTS_FOLDER, FileContentStore } from "@rowhouse/server/content/file-content-store";
import type { Engine } from "@rowhouse/server/engine/engine";
import type { Health } from "@rowhouse/server/http/health";
import { type Metric, single } from "@rowhouse/server/insight/prometheus";
import { Scrub } from "@rowhouse/server/scrub";
import type { FaultLog } from "./logs.ts";

/** The weekly check of everything that is stored. */
export function openScrub(engine: Engine, faults: FaultLog): Scrub {
  const folder = engine.path === undefined ? undefined : join(engine.path, CONTENTS_FOLDER);
  return new Scrub({
    engine,
    contentStore: async () =>
      folder !== undefined && existsSync(folder) ? FileContentStore.open(folder) : undefined,
    clock: systemClock,
    onError: (error) => faults.report("the check of all stored data", error),
  });
}

/** Adds to `/readyz` when everything was last checked, and what was damaged then. */
export function withScrub(health: () => Awaitable<Health>, scrub: Scrub): () => Awaitable<Health> {
  return () =>
    whenReady(health(), ({ ready, detail }) => {
      const { endedAt, damaged } = scrub.report();
      const checked = endedAt === undefined ? "not yet" : new Date(endedAt).toISOString();
      return { ready, detail: { ...detail, checked, ...(damaged > 0 && { damaged }) } };
    });
}

export function scrubMetrics(scrub: Scrub): Metric[] {
  const { endedAt, damaged, bytes } = scrub.report();
  return [
    single(
      "rowhouse_scrub_damaged",
      "gauge",
      "Stored values and files that the last check found damaged.",
      damaged,
    ),
    single("rowhouse_scrub_bytes", "gauge", "What the check of all stored data has read.", bytes),
    single(
      "rowhouse_scrub_ended_seconds",
      "gauge",
      "When everything had last been checked; 0 if never.",
      (endedAt ?? 0) / 1000,
    ),
  ];
}
