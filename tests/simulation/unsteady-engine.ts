import { type Engine, EngineError } from "@rowhouse/server/engine/engine";

/** What an unsteady engine does from now on. */
export interface Mood {
  /** Share of commits that are refused. */
  readonly refusals: number;
  /** Share of commits of which nobody is told whether they happened; some happen only afterwards. */
  readonly doubts?: number;
}

/**
 * An engine whose answers come late, some later than others, and whose commits are refused now and
 * then, or end nobody knows how: as over a network, so that whatever can come between two steps does.
 * Random, by the numbers it is given.
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
