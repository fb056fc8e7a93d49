import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BlobLab, LabClock } from "@rowhouse/server/blob/test-blob-lab";
import { EngineError } from "@rowhouse/server/engine/engine";
import { MemoryEngine } from "@rowhouse/server/engine/memory-engine";
import { seededRandom } from "../support/seeded-random.ts";
import { seed, times } from "./settings.ts";
import { type Mood, unsteady } from "./unsteady-engine.ts";

const CLIENTS = 6;
const STEPS_A_ROUND = 5;
const NAMES = ["a", "b", "c", "d", "e", "f", "g", "h"];
const BLOCKS = ["AAAA", "BBBB", "CCCC"];
/** Stored in the blob's record, in a row, and in the content store. */
const SIZES = [10, 100_000, 300_000];

describe(`Blobs on an engine that does not always report a commit's result (seed ${seed}, SIMULATION_SEED repeats it)`, () => {
  for (const inRows of [false, true]) {
    it(`stay readable and leave no orphaned content, with large contents in ${inRows ? "rows" : "a store"}`, async () => {
      const random = seededRandom(seed + Number(inRows));
      const clock = new LabClock();
      let mood: Mood = { refusals: 0 };
      const engine = unsteady(new MemoryEngine({ clock }), random, {
        get refusals() {
          return mood.refusals;
        },
        get doubts() {
          return mood.doubts ?? 0;
        },
      });
      const onError = (error: unknown) => assert.ok(error instanceof EngineError, String(error));
      const lab = await BlobLab.open({ clock, engine, inRows, onError });
      await lab.must("PUT", "/docs?restype=container");

      const rounds = Math.ceil((600 * times) / CLIENTS / STEPS_A_ROUND);
      for (let round = 0; round < rounds; round++) {
        mood = { refusals: 0.05, doubts: 0.15 };
        await Promise.all(Array.from({ length: CLIENTS }, () => disturb(lab, random)));
        mood = { refusals: 0 };
        // Commits in flight arrive.
        for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve));
        await lab.assertTidy();
        for (const name of NAMES) {
          const { status, headers, body } = await lab.send("GET", `/docs/${name}`);
          assert.ok(status === 200 || status === 404, `${name}: ${status} ${body}`);
          if (status === 200) assert.equal(body.length, Number(headers.get("content-length")));
        }
      }
      await lab.close();
    });
  }
});

/** Sends random writes and ignores the answers. */
async function disturb(lab: BlobLab, random: () => number): Promise<void> {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
  for (let i = 0; i < STEPS_A_ROUND; i++) {
    const path = `/docs/${pick(NAMES)}`;
    const body = Buffer.alloc(pick(SIZES), i);
    const latest = BLOCKS.filter(() => random() < 0.5).map((id) => `<Latest>${id}</Latest>`);
    const source = `http://127.0.0.1:10000/devstoreaccount1/docs/${pick(NAMES)}`;
    const [method, query, request] = pick([
      ["PUT", "", { headers: { "x-ms-blob-type": "BlockBlob" }, body }],
      ["PUT", "", { headers: { "x-ms-blob-type": "AppendBlob" } }],
      ["PUT", `?comp=block&blockid=${pick(BLOCKS)}`, { body }],
      ["PUT", "?comp=blocklist", { body: `<BlockList>${latest.join("")}</BlockList>` }],
      ["PUT", "?comp=appendblock", { body }],
      ["PUT", "", { headers: { "x-ms-copy-source": source } }],
      ["DELETE", "", {}],
    ] as const);
    await lab.send(method, path + query, request);
    if (random() < 0.1) await lab.service.collector.collect().catch(() => {});
  }
}
