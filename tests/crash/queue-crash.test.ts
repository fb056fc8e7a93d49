import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { printMessageId } from "@rowhouse/server/queue/message-id";
import {
  queuePartition,
  readyKey,
  readyRange,
  unexpiredRange,
} from "@rowhouse/server/queue/message-keys";
import { decodeMessage, type Message } from "@rowhouse/server/queue/message-record";
import { printPopReceipt } from "@rowhouse/server/queue/pop-receipt";
import { createTestDatabase } from "../support/database-engine.ts";
import { type RowhouseProcess, startRowhouse, withFolder } from "../support/rowhouse-process.ts";
import { seededRandom } from "../support/seeded-random.ts";
import type { HttpAnswer } from "../wire/http-answer.ts";
import { QueueWire } from "../wire/queue-wire.ts";

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);
const rounds = Number(process.env.CRASH_ROUNDS ?? 3);
const WORKERS = 8;
const QUEUE = "/orders";

/** What is known of a message from what was acknowledged, and from what is under way. */
interface Known {
  readonly text: string;
  receipt: string;
  /** The number of the worker that holds it. */
  holder: number | undefined;
  state: "there" | "updating" | "deleting" | "deleted";
}

/** What all workers know together. */
class Ledger {
  readonly messages = new Map<string, Known>();
  /** Texts of puts that were sent and not acknowledged. */
  readonly unsurePuts = new Set<string>();
  /** How many messages may have been received by somebody who was not told. */
  unsureReceives = 0;
  #acknowledged = 0;
  #texts = 0;
  #reached: () => void = () => {};
  #awaited = Number.POSITIVE_INFINITY;

  acknowledge(): void {
    if (++this.#acknowledged >= this.#awaited) this.#reached();
  }

  /** Resolves once so many more requests were answered. */
  answered(count: number): Promise<void> {
    this.#awaited = this.#acknowledged + count;
    return new Promise((resolve) => {
      this.#reached = resolve;
    });
  }

  nextText(): string {
    return `${this.#texts++} ${"x".repeat(this.#texts % 3000)}`;
  }
}

describe(`A server killed while a queue is worked off (seed ${seed}, CRASH_SEED repeats it)`, () => {
  it(`loses no message, brings none back and keeps every receipt, ${rounds} times over`, async () => {
    await withFolder((folder) =>
      crash(rounds, {
        start: () => startRowhouse(folder, ["--silent"]),
        open: () => openLmdbEngine({ path: folder }),
      }),
    );
  });

  it("loses none over PostgreSQL either, whose process lives on", async () => {
    const database = await createTestDatabase();
    const flags = ["--silent", "--engine", database.url, "--allowUnsafeEngine"];
    await withFolder((folder) =>
      crash(process.env.CRASH_ROUNDS ? rounds : 1, {
        start: () => startRowhouse(folder, flags),
        async open() {
          await database.settled();
          return database.open();
        },
      }),
    );
    await database.drop();
  });
});

/** Where a server keeps its queues, and how to look at them when no server runs. */
interface Place {
  start(): Promise<RowhouseProcess>;
  open(): Promise<Engine>;
}

async function crash(rounds: number, place: Place): Promise<void> {
  const random = seededRandom(seed);
  const ledger = new Ledger();
  for (let round = 0; round < rounds; round++) {
    const server = await place.start();
    const wires = Array.from({ length: WORKERS }, () => new QueueWire(server.queueUrl));
    try {
      const created = await wires[0]!.send("PUT", QUEUE);
      assert.equal(created.status, round === 0 ? 201 : 204);
      const enough = ledger.answered(200 + Math.floor(random() * 500));
      const workers = wires.map((wire, number) => work(wire, number, ledger, random));
      await Promise.race([enough, Promise.all(workers)]);
      await server.kill();
      await Promise.all(workers);
    } finally {
      await server.kill();
      for (const wire of wires) wire.close();
    }
    judge(await readStored(place), ledger);
  }
}

/** Puts, receives, updates and deletes, one after the other, until the server is gone. */
async function work(
  wire: QueueWire,
  number: number,
  ledger: Ledger,
  random: () => number,
): Promise<void> {
  const worker = new Worker(wire, number, ledger, random);
  for (;;) {
    const kind = random();
    const isAnswered =
      kind < 0.35
        ? await worker.put()
        : kind < 0.6
          ? await worker.receive()
          : kind < 0.85
            ? await worker.delete()
            : await worker.update();
    if (!isAnswered) return;
  }
}

class Worker {
  readonly #wire: QueueWire;
  readonly #number: number;
  readonly #ledger: Ledger;
  readonly #random: () => number;

  constructor(wire: QueueWire, number: number, ledger: Ledger, random: () => number) {
    this.#wire = wire;
    this.#number = number;
    this.#ledger = ledger;
    this.#random = random;
  }

  async put(): Promise<boolean> {
    const text = this.#ledger.nextText();
    this.#ledger.unsurePuts.add(text);
    const body = `<QueueMessage><MessageText>${text}</MessageText></QueueMessage>`;
    const answer = await this.#send("POST", "/messages?messagettl=-1", body);
    if (!answer) return false;
    assert.equal(answer.status, 201, answer.text);
    this.#ledger.unsurePuts.delete(text);
    const [message] = messagesOf(answer);
    // Somebody may have received it before its sender was told.
    if (!this.#ledger.messages.has(message!.id)) {
      this.#ledger.messages.set(message!.id, {
        text,
        receipt: message!.receipt,
        holder: undefined,
        state: "there",
      });
    }
    return true;
  }

  async receive(): Promise<boolean> {
    const max = 1 + Math.floor(this.#random() * 4);
    const answer = await this.#send("GET", `/messages?numofmessages=${max}&visibilitytimeout=3600`);
    if (!answer) {
      this.#ledger.unsureReceives += max;
      return false;
    }
    assert.equal(answer.status, 200, answer.text);
    for (const { id, receipt, text } of messagesOf(answer)) {
      const known = this.#ledger.messages.get(id);
      if (!known) {
        assert.ok(this.#ledger.unsurePuts.has(text), "a message that nobody put");
      } else {
        assert.equal(known.holder, undefined, "a message that somebody holds");
        assert.notEqual(known.state, "deleted", "a message that was deleted");
      }
      this.#ledger.messages.set(id, { text, receipt, holder: this.#number, state: "there" });
    }
    return true;
  }

  async delete(): Promise<boolean> {
    const held = this.#anyHeld();
    if (!held) return true;
    const [id, known] = held;
    known.state = "deleting";
    const answer = await this.#send("DELETE", `/messages/${id}?popreceipt=${known.receipt}`);
    if (!answer) return false;
    assert.equal(answer.status, 204, answer.text);
    known.state = "deleted";
    known.holder = undefined;
    return true;
  }

  async update(): Promise<boolean> {
    const held = this.#anyHeld();
    if (!held) return true;
    const [id, known] = held;
    const releases = this.#random() < 0.5;
    known.state = "updating";
    // As soon as it is visible somebody else may have it, and its sender hears of that later.
    if (releases) known.holder = undefined;
    const seconds = releases ? 0 : 3600;
    const query = `popreceipt=${known.receipt}&visibilitytimeout=${seconds}`;
    const answer = await this.#send("PUT", `/messages/${id}?${query}`);
    if (!answer) return false;
    assert.equal(answer.status, 204, answer.text);
    if (this.#ledger.messages.get(id) !== known) return true;
    known.state = "there";
    known.receipt = answer.header("x-ms-popreceipt")!;
    return true;
  }

  #anyHeld(): [string, Known] | undefined {
    const held = [...this.#ledger.messages].filter(([, { holder }]) => holder === this.#number);
    return held[Math.floor(this.#random() * held.length)];
  }

  /** Undefined when the server is gone. */
  async #send(method: string, path: string, body?: string): Promise<HttpAnswer | undefined> {
    try {
      const answer = await this.#wire.send(method, QUEUE + path, { body });
      this.#ledger.acknowledge();
      return answer;
    } catch {
      return undefined;
    }
  }
}

interface Stored {
  readonly messages: readonly Message[];
  /** Sort parts of the ready keys, in hexadecimal. */
  readonly ready: ReadonlySet<string>;
}

async function readStored(place: Place): Promise<Stored> {
  const engine = await place.open();
  // The only account, and the only queue it ever had.
  const partition = queuePartition(0, 0);
  const messages: Message[] = [];
  await engine.scan(unexpiredRange(partition, Date.now()), (entry) => {
    const { key, value, version } = entry;
    const own = { partition: Buffer.from(key.partition), sort: Buffer.from(key.sort) };
    messages.push(decodeMessage({ key: own, value: Buffer.from(value), version }));
    return true;
  });
  const ready = new Set<string>();
  await engine.scan(readyRange(partition), ({ key }) => {
    ready.add(hex(key.sort));
    return true;
  });
  await engine.close();
  return { messages, ready };
}

/** Compares what is on the disk with what was acknowledged, and learns from it what else happened. */
function judge({ messages, ready }: Stored, ledger: Ledger): void {
  const found = new Map(messages.map((message) => [printMessageId(message.id), message]));
  let receivedUnnoticed = 0;
  for (const [id, known] of ledger.messages) {
    const message = found.get(id);
    if (known.state === "deleted") assert.equal(message, undefined, "deleted, and there again");
    else if (known.state !== "deleting") assert.ok(message, "acknowledged, and lost");
    if (!message) {
      known.state = "deleted";
      known.holder = undefined;
      continue;
    }
    assert.equal(textOf(message), known.text);
    const receipt = printPopReceipt(message);
    if (known.state === "there" && receipt !== known.receipt) {
      assert.equal(known.holder, undefined, "somebody received what somebody else held");
      receivedUnnoticed++;
    }
    known.state = "there";
    known.receipt = receipt;
  }
  assert.ok(receivedUnnoticed <= ledger.unsureReceives);
  for (const [id, message] of found) {
    if (ledger.messages.has(id)) continue;
    const text = textOf(message);
    assert.ok(ledger.unsurePuts.has(text), `nobody put "${text}"`);
    const receipt = printPopReceipt(message);
    ledger.messages.set(id, { text, receipt, holder: undefined, state: "there" });
  }
  ledger.unsurePuts.clear();
  ledger.unsureReceives = 0;
  const expected = messages.map((message) => hex(readyKey(NOWHERE, message).sort));
  assert.deepEqual(ready, new Set(expected), "each message has its ready key, and no other");
}

const NOWHERE = new Uint8Array(0);

function textOf({ text }: Message): string {
  return Buffer.from(text).toString("utf8");
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

function messagesOf(answer: HttpAnswer): { id: string; receipt: string; text: string }[] {
  const pattern =
    /<MessageId>(.*?)<\/MessageId>.*?<PopReceipt>(.*?)<\/PopReceipt>.*?<\/TimeNextVisible>(?:<DequeueCount>\d+<\/DequeueCount><MessageText>(.*?)<\/MessageText>)?/gs;
  return [...answer.text.matchAll(pattern)].map(([, id, receipt, text]) => ({
    id: id!,
    receipt: receipt!,
    text: text ?? "",
  }));
}
