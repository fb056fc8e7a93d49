import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MemoryEngine } from "../engine/memory-engine.ts";
import { decorated } from "../engine/test-decorated.ts";
import { TABLE_DOCUMENTS } from "../xml/document-rules.ts";
import { KEY_SPACES } from "./key-spaces.ts";
import { ServicePropertiesStore } from "./service-properties-store.ts";

const RULE = {
  allowedOrigins: ["https://example.org"],
  allowedMethods: ["GET"],
  allowedHeaders: [],
  exposedHeaders: [],
  maxAgeSeconds: 60,
};

/** Like an engine behind a network: reads are answered later, and one answer may be delayed. */
class RemoteEngine {
  /** The next answer waits for it. */
  held: Promise<void> | undefined;
  readonly #memory = new MemoryEngine();
  readonly engine = decorated(this.#memory, {
    newestCommit: () => undefined,
    get: async (keys, bytesMax) => {
      const entries = this.#memory.get(keys, bytesMax);
      const { held } = this;
      this.held = undefined;
      await held;
      return entries;
    },
  });
}

describe("Service properties", () => {
  it("take effect at once when this server changes them, even if an earlier read is answered afterwards", async () => {
    const remote = new RemoteEngine();
    const { engine } = remote;
    const clock = { now: () => Date.UTC(2026, 0, 1) };
    const properties = new ServicePropertiesStore({
      engine,
      clock,
      space: KEY_SPACES.tableCatalog,
      accountIds: new Map([["alice", 0]]),
      rules: TABLE_DOCUMENTS,
    });
    let release = () => {};
    remote.held = new Promise((resolve) => {
      release = resolve;
    });
    const reading = properties.read("alice");
    await properties.change("alice", { cors: [RULE] });
    release();
    assert.deepEqual((await reading).cors, [RULE]);
    assert.deepEqual(await properties.corsRules("alice", clock.now()), [RULE]);
    assert.deepEqual(properties.chosen("alice")?.cors, [RULE]);
  });

  it("keep both changes when two servers change them concurrently", async () => {
    const remote = new RemoteEngine();
    const { engine } = remote;
    const common = {
      engine,
      clock: { now: () => Date.UTC(2026, 0, 1) },
      space: KEY_SPACES.tableCatalog,
      accountIds: new Map([["alice", 0]]),
      rules: TABLE_DOCUMENTS,
    };
    const here = new ServicePropertiesStore(common);
    const there = new ServicePropertiesStore(common);
    const { logging } = await here.read("alice");
    await Promise.all([
      here.change("alice", { cors: [RULE] }),
      there.change("alice", { logging: { ...logging, delete: !logging.delete } }),
    ]);
    const both = await here.read("alice");
    assert.deepEqual(both.cors, [RULE]);
    assert.equal(both.logging.delete, !logging.delete);
  });
});
