import assert from "node:assert/strict";
import { type Engine, EngineError, type Key } from "../engine.ts";
import { keyOf, together } from "./test-workloads.ts";

type Outcome = "committed" | "unavailable" | "unknown";

/**
 * Writes while the database is disturbed, and remembers the outcome reported for each commit: an acknowledged
 * commit must be present, an unknown one present as a whole or not at all, and one reported as not having
 * happened must be absent.
 */
export class Ledger {
  readonly #name: string;
  readonly #outcomes = new Map<string, { keys: readonly Key[]; outcome: Outcome }>();
  #isOpen = true;

  /** Ledgers of one database need different names. */
  constructor(name: string) {
    this.#name = name;
  }

  count(outcome: Outcome): number {
    return [...this.#outcomes.values()].filter((each) => each.outcome === outcome).length;
  }

  /** Writes until `close` with this many writers, commits of one key and of several in turn. */
  write(engines: readonly Engine[], writers: number): Promise<unknown> {
    return together(writers, async (writer) => {
      for (let number = 0; this.#isOpen; number++) {
        await this.#commit(engines[(writer + number) % engines.length]!, `${writer}`, number);
      }
    });
  }

  close(): void {
    this.#isOpen = false;
  }

  async #commit(engine: Engine, writer: string, number: number): Promise<void> {
    const name = `${writer}.${number}`;
    const sorts = number % 3 === 0 ? ["a"] : ["a", "b", "c"];
    // Every other commit of several keys spans two partitions.
    const keys = sorts.map((sort, index) =>
      keyOf(`${this.#name}${writer}${number % 2 === 0 ? index % 2 : ""}`, `${number}${sort}`),
    );
    const entry = { keys, outcome: "unknown" as Outcome };
    this.#outcomes.set(name, entry);
    try {
      const result = await engine.commit({
        version: engine.nextVersion(),
        checks: keys.map((key) => ({ key, expected: "absent" })),
        puts: keys.map((key) => ({ key, value: Buffer.from(name) })),
        deletes: [],
      });
      assert.equal(
        result.committed,
        true,
        `${name} was refused although no other writer uses its keys.`,
      );
      entry.outcome = "committed";
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      assert.ok(error.code === "Unknown" || error.code === "Unavailable", error.code);
      entry.outcome = error.code === "Unknown" ? "unknown" : "unavailable";
    }
  }

  /** Compares the outcomes reported with the entries present. */
  async verify(engine: Engine): Promise<void> {
    for (const [name, { keys, outcome }] of this.#outcomes) {
      const entries = await engine.get(keys);
      const present = entries.filter((entry) => entry && `${Buffer.from(entry.value)}` === name);
      const isWhole = present.length === keys.length;
      if (outcome === "committed") assert.ok(isWhole, `${name} was acknowledged but is missing.`);
      else if (outcome === "unavailable")
        assert.equal(present.length, 0, `${name} was reported as Unavailable but is stored.`);
      else assert.ok(isWhole || present.length === 0, `${name} is stored in part.`);
    }
  }
}
