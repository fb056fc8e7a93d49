import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Engine, Entry, Key } from "../engine/engine.ts";
import { MemoryEngine } from "../engine/memory-engine.ts";
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
class RemoteEngine implements Engine {
  readonly name = "remote";
  readonly #memory = new MemoryEngine();
  /** The next answer waits for it. */
  held: Promise<void> | undefined;

  get keyBytesMax(): number {
    return this.#memory.keyBytesMax;
  }

  async get(keys: readonly Key[]): Promise<(Entry | undefined)[]> {
    const entries = this.#memory.get(keys);
    const { held } = this;
    this.held = undefined;
    await held;
    return entries;
  }

  nextVersion = () => this.#memory.nextVersion();
  newestCommit = () => undefined;
  scan: Engine["scan"] = (range, visit) => this.#memory.scan(range, visit);
  commit: Engine["commit"] = (write) => this.#memory.commit(write);
  close = () => this.#memory.close();
}

describe("Service properties", () => {
  it("take effect at once when this server changes them, even if an earlier read is answered afterwards", async () => {
    const engine = new RemoteEngine();
    const clock = { now: () => Date.UTC(2026, 0, 1) };
    const properties = new ServicePropertiesStore({
      engine,
      clock,
      space: KEY_SPACES.tableCatalog,
      accountIds: new Map([["alice", 0]]),
      rules: TABLE_DOCUMENTS,
    });
    let release = () => {};
    engine.held = new Promise((resolve) => {
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
    const engine = new RemoteEngine();
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
