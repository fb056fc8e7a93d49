import { randomInt } from "node:crypto";
import { type Engine, EngineError, type Key } from "../engine/engine.ts";
import { KEY_SPACES } from "./key-spaces.ts";

const COUNTER: Key = {
  partition: Uint8Array.of(KEY_SPACES.processes),
  sort: Uint8Array.of(0x01),
};

/** A number for this process that differs from those of the other processes over the same data. */
export async function drawSlot(engine: Engine): Promise<number> {
  try {
    for (;;) {
      const [counter] = await engine.get([COUNTER]);
      const slot = counter ? Number(Buffer.from(counter.value).toString("latin1")) : 0;
      const { committed } = await engine.commit({
        version: engine.nextVersion(),
        checks: [{ key: COUNTER, expected: counter?.version ?? "absent" }],
        puts: [{ key: COUNTER, value: Buffer.from(String(slot + 1), "latin1") }],
        deletes: [],
      });
      if (committed) return slot;
    }
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    // A full disk, or a database that accepts no writes now, can still serve reads.
    return randomInt(2 ** 32);
  }
}
