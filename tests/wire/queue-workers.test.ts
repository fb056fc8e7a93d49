import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { QueueWire } from "./queue-wire.ts";

const MESSAGES = 200;
const CONSUMERS = 8;

describe("Two workers on one data folder", () => {
  it("deliver each message of a queue to exactly one consumer", async () => {
    await withFolder(async (folder) => {
      const server = await startRowhouse(folder, ["--silent", "--workers", "2"]);
      const wires = Array.from({ length: CONSUMERS }, () => new QueueWire(server.queueUrl));
      try {
        assert.equal((await wires[0]!.send("PUT", "/shared")).status, 201);
        const body = "<QueueMessage><MessageText>x</MessageText></QueueMessage>";
        await each(wires, async (wire) => {
          for (let i = 0; i < MESSAGES / CONSUMERS; i++) {
            assert.equal((await wire.send("POST", "/shared/messages", { body })).status, 201);
          }
        });
        const deleted: string[] = [];
        await each(wires, async (wire) => {
          for (;;) {
            const answer = await wire.send("GET", "/shared/messages?numofmessages=2");
            const found = [...answer.text.matchAll(/<MessageId>(.*?)<.*?<PopReceipt>(.*?)</g)];
            if (found.length === 0) return;
            for (const [, id, receipt] of found) {
              const path = `/shared/messages/${id}?popreceipt=${receipt}`;
              assert.equal((await wire.send("DELETE", path)).status, 204);
              deleted.push(id!);
            }
          }
        });
        assert.equal(deleted.length, MESSAGES);
        assert.equal(new Set(deleted).size, MESSAGES);
      } finally {
        for (const wire of wires) wire.close();
        await server.stop();
      }
    });
  });

  it("keep serving when the replacement of a killed worker is killed too", {
    timeout: 120_000,
  }, async () => {
    await withFolder(async (folder) => {
      const server = await startRowhouse(folder, ["--silent", "--workers", "2"]);
      const [survivor, ...others] = server.workerPids();
      const killed = new Set<number>();
      const wire = new QueueWire(server.queueUrl);
      try {
        // Found by their process and killed immediately, long before they serve.
        while (killed.size < 3) {
          for (const pid of others.splice(0)) {
            process.kill(pid, "SIGKILL");
            killed.add(pid);
          }
          const isNew = (pid: number) => pid !== survivor && !killed.has(pid);
          others.push(...server.workerPids().filter(isNew));
        }
        assert.equal((await wire.send("GET", "/?comp=list")).status, 200);
        assert.ok(server.workerPids().includes(survivor!));
      } finally {
        wire.close();
        await server.kill();
      }
    });
  });

  it("leave no connection hanging that was dealt to a worker that dies", {
    timeout: 120_000,
  }, async () => {
    await withFolder(async (folder) => {
      const server = await startRowhouse(folder, ["--silent", "--workers", "2"]);
      const [stopped] = server.workerPids();
      process.kill(stopped!, "SIGSTOP");
      const wires = Array.from({ length: 4 }, () => new QueueWire(server.queueUrl));
      try {
        const list = (wire: QueueWire) =>
          wire.send("GET", "/?comp=list").then(
            ({ status }) => status,
            () => "closed",
          );
        const answers = wires.map(list);
        // One of the first two connections is dealt to the stopped worker. It has been dealt once all others
        // are answered, because no worker is dealt a second connection before each has one.
        let answered = 0;
        await new Promise<void>((resolve) => {
          for (const answer of answers) {
            answer.then(() => {
              if (++answered === wires.length - 1) resolve();
            });
          }
        });
        process.kill(stopped!, "SIGKILL");
        const heard = await Promise.all(answers);
        assert.deepEqual(heard.toSorted(), [200, 200, 200, "closed"]);
      } finally {
        for (const wire of wires) wire.close();
        await server.kill();
      }
    });
  });
});

async function each(wires: QueueWire[], action: (wire: QueueWire) => Promise<void>): Promise<void> {
  await Promise.all(wires.map(action));
}
