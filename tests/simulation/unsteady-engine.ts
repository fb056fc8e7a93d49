import { type Engine, EngineError } from "@rowhouse/server/engine/engine";
import { decorated } from "@rowhouse/server/engine/test-decorated";

/** The behavior of an unsteady engine from now on. */
export interface Mood {
  /** Share of commits that are refused. */
  readonly refusals: number;
  /** Share of commits whose result is not reported; some of them happen only later. */
  readonly doubts?: number;
}

/**
 * An engine that answers with varying delays, refuses some commits, and reports an unknown result for others,
 * as over a network, so that any interleaving of two steps can occur. It draws from the given random numbers.
 * Like an engine behind a network it supports no `update`.
 */
export function unsteady(engine: Engine, random: () => number, mood: Mood): Engine {
  const late = async () => {
    for (let turns = Math.floor(random() * 4); turns > 0; turns--) {
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  };
  const inFlight = new Set<Promise<unknown>>();
  const commit: Engine["commit"] = async (write) => {
    await late();
    if (random() < mood.refusals) throw new EngineError("Unavailable", "Refused at random.");
    if (random() < (mood.doubts ?? 0)) {
      const fate = random();
      if (fate < 0.4) await engine.commit(write);
      else if (fate < 0.7) void late().then(() => engine.commit(write));
      throw new EngineError("Unknown", "Broken off at random.");
    }
    const result = await engine.commit(write);
    await late();
    return result;
  };
  return decorated(engine, {
    supports: { ...engine.supports, update: false },
    update: undefined,
    async get(keys, bytesMax) {
      await late();
      const entries = await engine.get(keys, bytesMax);
      await late();
      return entries;
    },
    async scan(range, visit, hints) {
      await late();
      const end = await engine.scan(range, visit, hints);
      await late();
      return end;
    },
    async commit(write) {
      const committing = commit(write);
      inFlight.add(committing);
      try {
        return await committing;
      } finally {
        inFlight.delete(committing);
      }
    },
    async close() {
      await Promise.allSettled(inFlight);
      await engine.close();
    },
  });
}
