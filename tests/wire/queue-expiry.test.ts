import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { KEY_SPACES } from "@rowhouse/server/catalog/key-spaces";
import type { Engine } from "@rowhouse/server/engine/engine";
import { partitionPrefixRange } from "@rowhouse/server/engine/key-codec";
import { scanToEnd } from "@rowhouse/server/engine/scan-to-end";
import { openTestEngine } from "../support/test-engine.ts";
import { startLocalServer } from "./local-server.ts";
import { QueueWire } from "./queue-wire.ts";

const TURN_MS = 15_000;
/** Entries of a message: its record and its ready key. */
const ENTRIES = 2;

it("A server frees expired messages while no client sends requests", {
  timeout: 60_000,
}, async (t) => {
  let now = Date.UTC(2026, 6, 31);
  const clock = { now: () => now };
  const engine = await openTestEngine({ clock });
  // Only the server's timers; those of a database are real.
  t.mock.timers.enable({ apis: ["setInterval"] });
  const listen = { queue: { host: "127.0.0.1", port: 0 } };
  const server = await startLocalServer({ engine, clock, listen });
  try {
    const wire = new QueueWire(server.urls.queue!);
    const send = async (method: string, path: string, body?: string) => {
      const { status } = await wire.send(method, path, { body, signedAt: now });
      assert.ok(status < 300, `${method} ${path}: ${status}`);
    };
    const put = async (count: number, query: string) => {
      const body = "<QueueMessage><MessageText>x</MessageText></QueueMessage>";
      for (let i = 0; i < count; i++) await send("POST", `/orders/messages?${query}`, body);
    };
    await send("PUT", "/orders");
    await put(20, "messagettl=60");
    await put(20, "messagettl=60&visibilitytimeout=50");
    await put(5, "messagettl=600");
    await put(1, "messagettl=-1");
    await send("GET", "/orders/messages?numofmessages=10&visibilitytimeout=40");
    wire.close();
    assert.equal(await entriesOf(engine), 46 * ENTRIES);

    // No client sends a request from here on.
    now += 60_000;
    t.mock.timers.tick(TURN_MS);
    await untilEntries(t, engine, 6 * ENTRIES);
    now += 540_000;
    t.mock.timers.tick(TURN_MS);
    await untilEntries(t, engine, ENTRIES);
  } finally {
    await server.close();
  }
});

/** Waits for work in progress; the test's time limit ends the wait if there is none. */
async function untilEntries({ signal }: TestContext, engine: Engine, count: number): Promise<void> {
  while ((await entriesOf(engine)) !== count) {
    signal.throwIfAborted();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** The entries of all queues together. */
async function entriesOf(engine: Engine): Promise<number> {
  const range = partitionPrefixRange(Uint8Array.of(KEY_SPACES.messages));
  let count = 0;
  await scanToEnd(engine, range, () => {
    count++;
    return true;
  });
  return count;
}
