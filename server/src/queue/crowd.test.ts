import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it, type TestContext } from "node:test";
import { openLmdbEngine } from "../engine/lmdb/lmdb-engine.ts";
import { TestStore } from "./test-store.ts";

/** The number of messages in the way. `CROWD=1000000` runs on LMDB instead of memory and takes some minutes. */
const crowd = Number(process.env.CROWD ?? 100_000);
const HOUR_MS = 3_600_000;

it(`Get Messages reads only the messages it returns among ${crowd} hidden messages`, async (t) => {
  const store = await openCrowded(t, { visibilityTimeoutMs: HOUR_MS });
  await store.putMany(40);
  await assertGets(t, store, { entriesMax: 32, scansMax: 1 });
  store.pass(HOUR_MS);
  assert.equal((await store.receive(32)).length, 32, "the hidden messages are visible again");
});

it(`Get Messages reads at most 300 entries if ${crowd} messages have expired`, async (t) => {
  const store = await openCrowded(t, { timeToLiveMs: 1000 });
  await store.putMany(40);
  store.pass(1000);
  await assertGets(t, store, { entriesMax: 300, scansMax: 2 });

  // Now hidden messages bar the order of expiry, too: the expired messages are passed over, but only once.
  await store.putMany(1500, { visibilityTimeoutMs: HOUR_MS, timeToLiveMs: 2 * HOUR_MS });
  await store.putMany(40);
  store.pass(10_000);
  const startedAt = performance.now();
  assert.equal((await store.receive()).length, 1);
  t.diagnostic(`passing over all of them took ${(performance.now() - startedAt).toFixed(0)} ms`);
  await assertGets(t, store, { entriesMax: 300, scansMax: 1 });
});

async function openCrowded(
  t: TestContext,
  message: { visibilityTimeoutMs?: number; timeToLiveMs?: number },
): Promise<TestStore> {
  const store = await TestStore.open(process.env.CROWD ? await openOnDisk(t) : undefined);
  for (let put = 0; put < crowd; put += 1000) {
    await Promise.all(Array.from({ length: 1000 }, () => store.put("in the way", message)));
  }
  return store;
}

async function openOnDisk(t: TestContext) {
  const path = mkdtempSync(join(tmpdir(), "crowd-"));
  const engine = await openLmdbEngine({ path });
  t.after(async () => {
    await engine.close();
    rmSync(path, { recursive: true });
  });
  return engine;
}

/** Reads of one message (twice), then of 32. */
async function assertGets(
  t: TestContext,
  store: TestStore,
  { entriesMax, scansMax }: { entriesMax: number; scansMax: number },
): Promise<void> {
  for (const count of [1, 1, 32]) {
    store.reads.reset();
    const startedAt = performance.now();
    assert.equal((await store.receive(count)).length, count);
    const { entries, scans } = store.reads;
    const milliseconds = (performance.now() - startedAt).toFixed(1);
    t.diagnostic(`${count} received: ${entries} entries in ${scans} scans, ${milliseconds} ms`);
    assert.ok(entries <= entriesMax, `${entries} entries were read`);
    assert.ok(scans <= scansMax, `${scans} scans`);
  }
}
