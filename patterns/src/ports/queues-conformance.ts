import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isRefusal } from "./port-error.ts";
import type { QueuesPort } from "./queues.ts";

export interface QueuesUnderTest {
  readonly name: string;
  open(): Promise<QueuesPort> | QueuesPort;
  /** Advances the endpoint's clock, by less than a quarter of an hour in all. */
  pass(ms: number): void;
}

let queues = 0;

/** What every queues port promises, whatever its endpoint. */
export function testQueuesPort({ name, open, pass }: QueuesUnderTest): void {
  const opened = async () => {
    const port = await open();
    const queue = `conformance-${++queues}`;
    await port.createQueue(queue);
    return { port, queue };
  };
  const once = { max: 32, visibilityMs: 30_000 };
  const refused = (status: number, code: string) => (error: unknown) =>
    isRefusal(error, status) && error.code === code;

  describe(`${name} keeps the queues port's contract`, () => {
    it("creates a queue once", async () => {
      const { port, queue } = await opened();
      assert.equal(await port.createQueue(queue), false);
      await assert.rejects(port.send(`${queue}-none`, "x"), refused(404, "QueueNotFound"));
    });

    it("returns text exactly as it was sent", async () => {
      const { port, queue } = await opened();
      const text = JSON.stringify({ markup: "<&'\"]]>", lines: "a\r\nb\t", script: "ü 😀" });
      await port.send(queue, text);
      assert.equal((await port.peek(queue, 1))[0]?.text, text);
      const [message] = await port.receive(queue, once);
      assert.equal(message?.text, text);
      assert.ok(message?.insertedAt instanceof Date);
    });

    it("hides a message while it is delayed and while it is received, and counts deliveries", async () => {
      const { port, queue } = await opened();
      await port.send(queue, "x", { delayMs: 5000 });
      assert.deepEqual(await port.receive(queue, once), []);
      pass(6000);
      assert.equal((await port.receive(queue, once))[0]?.dequeueCount, 1);
      assert.deepEqual(await port.receive(queue, once), []);
      pass(31_000);
      assert.equal((await port.receive(queue, once))[0]?.dequeueCount, 2);
    });

    it("returns the same insertion time to sender and receiver", async () => {
      const { port, queue } = await opened();
      const { insertedAt } = await port.send(queue, "x");
      const [message] = await port.receive(queue, once);
      assert.deepEqual(insertedAt, message?.insertedAt);
    });

    it("deletes a delayed message by the receipt from its sending", async () => {
      const { port, queue } = await opened();
      const receipt = await port.send(queue, "x", { delayMs: 90_000 });
      assert.equal(await port.delete(queue, receipt), true);
      assert.equal(await port.delete(queue, receipt), false);
      pass(91_000);
      assert.deepEqual(await port.receive(queue, once), []);
    });

    it("renews a lease, changes the text, and releases a message immediately", async () => {
      const { port, queue } = await opened();
      await port.send(queue, "old");
      const [message] = await port.receive(queue, once);
      const renewed = await port.update(queue, message!, { visibilityMs: 60_000 });
      pass(31_000);
      assert.deepEqual(await port.receive(queue, once), []);
      await port.update(queue, renewed, { visibilityMs: 0, text: "new" });
      const [again] = await port.receive(queue, once);
      assert.deepEqual([again?.text, again?.dequeueCount], ["new", 2]);
    });

    it("accepts only the latest receipt", async () => {
      const { port, queue } = await opened();
      await port.send(queue, "x");
      const [first] = await port.receive(queue, once);
      pass(31_000);
      const [second] = await port.receive(queue, once);
      assert.equal(await port.delete(queue, first!), false);
      await assert.rejects(port.update(queue, first!, { visibilityMs: 1000 }), (error) =>
        isRefusal(error, 400, 404),
      );
      assert.equal(await port.delete(queue, second!), true);
      await assert.rejects(port.update(queue, second!, { visibilityMs: 1000 }), (error) =>
        isRefusal(error, 404),
      );
    });

    it("drops a message when its time to live ends, and no other", async () => {
      const { port, queue } = await opened();
      await port.send(queue, "short", { timeToLiveS: 60 });
      await port.send(queue, "for ever");
      pass(61_000);
      const left = await port.receive(queue, once);
      assert.deepEqual(
        left.map(({ text }) => text),
        ["for ever"],
      );
    });

    it("returns at most 32 messages, and refuses texts beyond the limit", async () => {
      const { port, queue } = await opened();
      for (let i = 0; i < 34; i++) await port.send(queue, String(i));
      assert.equal((await port.receive(queue, once)).length, 32);
      assert.equal((await port.receive(queue, once)).length, 2);
      await port.send(queue, "x".repeat(65_536));
      await assert.rejects(
        port.send(queue, "x".repeat(65_537)),
        refused(413, "RequestBodyTooLarge"),
      );
      await assert.rejects(
        port.receive(queue, { max: 33, visibilityMs: 1000 }),
        refused(400, "OutOfRangeQueryParameterValue"),
      );
    });
  });
}
