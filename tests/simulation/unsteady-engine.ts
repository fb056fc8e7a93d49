import { type Engine, EngineError } from "@rowhouse/server/engine/engine";

/**
 * An engine whose answers come late, some later than others, and whose commits are refused now and
 * then: as over a network, so that whatever can come between two steps does. Random, by the numbers
 * it is given. `mood.refusals` is the share of commits refused from then on.
 */
export function unsteady(
  engine: Engine,
  random: () => number,
  mood: { readonly refusals: number },
): Engine {
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
      const result = await engine.commit(write);
      await late();
      return result;
    },
    close: () => engine.close(),
  };
}
