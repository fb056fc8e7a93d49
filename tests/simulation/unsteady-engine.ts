import { type Engine, EngineError } from "@rowhouse/server/engine/engine";

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
 */
export function unsteady(engine: Engine, random: () => number, mood: Mood): Engine {
  const late = async () => {
    for (let turns = Math.floor(random() * 4); turns > 0; turns--) {
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  };
  return {
    name: engine.name,
    keyBytesMax: engine.keyBytesMax,
    nextVersion: () => engine.nextVersion(),
    newestCommit: () => engine.newestCommit(),
    async get(keys) {
      await late();
      const entries = await engine.get(keys);
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
    },
    close: () => engine.close(),
  };
}
