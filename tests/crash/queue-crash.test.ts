import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Engine } from "@rowhouse/server/engine/engine";
import { openLmdbEngine } from "@rowhouse/server/engine/lmdb/lmdb-engine";
import { scanToEnd } from "@rowhouse/server/engine/scan-to-end";
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
import { interrupt, type Pace, TWO_WORKERS, type Victim, victimOf } from "./interruption.ts";

const seed = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000);
const rounds = Number(process.env.CRASH_ROUNDS ?? 3);
const CLIENTS = 8;
const QUEUE = "/orders";
/** A received message becomes visible again only after the test, unless it is released. */
const HELD_S = 24 * 3600;

/** What acknowledgements and requests in flight imply about a message. */
interface Known {
  readonly text: string;
  receipt: string;
  dequeueCount: number;
  /** The number of the client that holds it. */
  holder: number | undefined;
  /** After a broken connection, an update or delete may or may not have happened. */
  state: "there" | "updating" | "deleting" | "deleted";
}

/** The shared knowledge of all clients. */
class Ledger {
  readonly messages = new Map<string, Known>();
  /** Texts of puts that were sent and not acknowledged. */
  readonly unsurePuts = new Set<string>();
  /** How many messages may have been received by a client that got no answer. */
  unsureReceives = 0;
  #texts = 0;

  nextText(): string {
    return `${this.#texts++} ${"x".repeat(this.#texts % 3000)}`;
  }
}

describe(`A server killed while clients work through a queue (seed ${seed}, CRASH_SEED repeats it)`, () => {
  it(`loses no message, restores no deleted one and keeps every receipt valid, in each of ${rounds} rounds`, async () => {
    await withFolder((folder) =>
      crash(rounds, {
        start: () => startRowhouse(folder, ["--silent"]),
        open: () => openLmdbEngine({ path: folder }),
      }),
    );
  });

  it("loses no message with two workers, whether one or both are killed", async () => {
    await withFolder((folder) =>
      crash(process.env.CRASH_ROUNDS ? rounds : 2, {
        start: () => startRowhouse(folder, TWO_WORKERS),
        open: () => openLmdbEngine({ path: folder }),
        victimOf,
      }),
    );
  });

  it("loses no message over PostgreSQL, which is not killed", async () => {
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

/** Where a server stores its queues, and how to open them when no server runs. */
interface Place {
  start(): Promise<RowhouseProcess>;
  open(): Promise<Engine>;
  /** The processes to kill in a round. */
  victimOf?(round: number): Victim;
}

async function crash(rounds: number, place: Place): Promise<void> {
  const random = seededRandom(seed);
  const ledger = new Ledger();
  let server: RowhouseProcess | undefined;
  try {
    for (let round = 0; round < rounds; round++) {
      server ??= await place.start();
      const { queueUrl } = server;
      const wires = Array.from({ length: CLIENTS }, () => new QueueWire(queueUrl));
      const created = await wires[0]!.send("PUT", QUEUE);
      assert.equal(created.status, round === 0 ? 201 : 204);
      const victim = place.victimOf?.(round) ?? "everything";
      const answers = 200 + Math.floor(random() * 500);
      await interrupt({ server, victim, answers, random }, (pace) =>
        Promise.all(wires.map((wire, number) => work(wire, number, { ledger, random, pace }))),
      );
      for (const wire of wires) wire.close();
      if (victim !== "worker") server = undefined;
      judge(await readStored(place), ledger);
    }
  } finally {
    await server?.kill();
  }
}

interface Work {
  readonly ledger: Ledger;
  readonly random: () => number;
  readonly pace: Pace;
}

/** Puts, receives, updates and deletes, one after the other, until the round or the server ends. */
async function work(
  wire: QueueWire,
  number: number,
  { ledger, random, pace }: Work,
): Promise<void> {
  const client = new Client(wire, number, ledger, random);
  while (!pace.isOver) {
    if (await client.act()) pace.answer();
    else if (pace.isLast) return;
    else wire.close();
  }
}

/** Each action returns whether the server answered it. */
class Client {
  readonly #wire: QueueWire;
  readonly #number: number;
  readonly #ledger: Ledger;
  readonly #random: () => number;
  /** The action to repeat, because its connection broke. */
  #again: (() => Promise<boolean>) | undefined;

  constructor(wire: QueueWire, number: number, ledger: Ledger, random: () => number) {
    this.#wire = wire;
    this.#number = number;
    this.#ledger = ledger;
    this.#random = random;
  }

  act(): Promise<boolean> {
    const again = this.#again;
    this.#again = undefined;
    if (again) return again();
    const kind = this.#random();
    if (kind < 0.35) return this.put();
    if (kind < 0.6) return this.receive();
    const held = this.#anyHeld();
    if (!held) return Promise.resolve(true);
    if (kind < 0.85) return this.delete(held);
    return this.update(held, this.#random() < 0.5 ? 0 : HELD_S);
  }

  async put(): Promise<boolean> {
    const text = this.#ledger.nextText();
    this.#ledger.unsurePuts.add(text);
    const body = `<QueueMessage><MessageText>${text}</MessageText></QueueMessage>`;
    const answer = await this.#send("POST", "/messages?messagettl=-1", body);
    if (!answer) return false;
    assert.equal(answer.status, 201, answer.text);
    this.#ledger.unsurePuts.delete(text);
    const { id, receipt } = messagesOf(answer)[0]!;
    // Another client may have received it before its sender got the answer.
    if (!this.#ledger.messages.has(id)) {
      const known = { text, receipt, dequeueCount: 0, holder: undefined, state: "there" } as const;
      this.#ledger.messages.set(id, { ...known });
    }
    return true;
  }

  async receive(): Promise<boolean> {
    const max = 1 + Math.floor(this.#random() * 4);
    const query = `numofmessages=${max}&visibilitytimeout=${HELD_S}`;
    const answer = await this.#send("GET", `/messages?${query}`);
    if (!answer) {
      this.#ledger.unsureReceives += max;
      return false;
    }
    assert.equal(answer.status, 200, answer.text);
    for (const { id, receipt, text, dequeueCount } of messagesOf(answer)) {
      const known = this.#ledger.messages.get(id);
      if (!known) {
        assert.ok(this.#ledger.unsurePuts.has(text), "a message that was never put");
      } else {
        assert.equal(known.text, text);
        assert.equal(known.holder, undefined, "a message that another consumer holds");
        assert.notEqual(known.state, "deleted", "a message that was deleted");
      }
      // A client that receives a message without getting the answer keeps holding it.
      assert.equal(dequeueCount, (known?.dequeueCount ?? 0) + 1, "received that often");
      const holder = this.#number;
      this.#ledger.messages.set(id, { text, receipt, dequeueCount, holder, state: "there" });
    }
    return true;
  }

  async delete(held: Held, isRepeated = false): Promise<boolean> {
    const { id, known } = held;
    known.state = "deleting";
    const answer = await this.#send("DELETE", `/messages/${id}?popreceipt=${known.receipt}`);
    if (!answer) return this.#breakOff(() => this.delete(held, true));
    // No other client can have deleted it, so it is gone whatever the answer.
    if (!isRefused(answer, isRepeated)) assert.equal(answer.status, 204, answer.text);
    known.state = "deleted";
    known.holder = undefined;
    return true;
  }

  async update(held: Held, seconds: number, isRepeated = false): Promise<boolean> {
    const { id, known } = held;
    const isAnothers = () => this.#ledger.messages.get(id) !== known;
    const wasAnothers = isAnothers();
    known.state = "updating";
    // As soon as it is visible another client may receive it, before this one gets the answer.
    if (seconds === 0) known.holder = undefined;
    const query = `popreceipt=${known.receipt}&visibilitytimeout=${seconds}`;
    const answer = await this.#send("PUT", `/messages/${id}?${query}`);
    if (!answer) return this.#breakOff(() => this.update(held, seconds, true));
    // In that case the first attempt updated it, and its new receipt was lost.
    if (isRefused(answer, isRepeated)) return true;
    assert.equal(answer.status, 204, answer.text);
    assert.ok(!wasAnothers, "a receipt older than another consumer's");
    if (isAnothers()) return true;
    known.state = "there";
    known.receipt = answer.header("x-ms-popreceipt")!;
    return true;
  }

  /** A random message that it holds and whose state is certain. */
  #anyHeld(): Held | undefined {
    const held = [...this.#ledger.messages].filter(
      ([, { holder, state }]) => holder === this.#number && state === "there",
    );
    const found = held[Math.floor(this.#random() * held.length)];
    return found && { id: found[0], known: found[1] };
  }

  /** Half of the time, the client repeats a request whose outcome it does not know. */
  #breakOff(again: () => Promise<boolean>): false {
    if (this.#random() < 0.5) this.#again = again;
    return false;
  }

  /** Undefined if the connection broke. */
  async #send(method: string, path: string, body?: string): Promise<HttpAnswer | undefined> {
    try {
      return await this.#wire.send(method, QUEUE + path, { body });
    } catch {
      return undefined;
    }
  }
}

interface Held {
  readonly id: string;
  readonly known: Known;
}

function isRefused(answer: HttpAnswer, isRepeated: boolean): boolean {
  return isRepeated && answer.status === 404 && answer.text.includes("MessageNotFound");
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
  await scanToEnd(engine, unexpiredRange(partition, Date.now()), (entry) => {
    const { key, value, version } = entry;
    const own = { partition: Buffer.from(key.partition), sort: Buffer.from(key.sort) };
    messages.push(decodeMessage({ key: own, value: Buffer.from(value), version }));
    return true;
  });
  const ready = new Set<string>();
  await scanToEnd(engine, readyRange(partition), ({ key }) => {
    ready.add(hex(key.sort));
    return true;
  });
  await engine.close();
  return { messages, ready };
}

/** Compares the stored messages with what was acknowledged, and resolves the requests whose outcome was unknown. */
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
    const received = message.dequeueCount - known.dequeueCount;
    assert.ok(received >= 0, "the dequeue count fell");
    if (known.state === "there") assert.equal(receipt === known.receipt, received === 0);
    if (known.holder !== undefined) assert.equal(received, 0, "a held message was received");
    receivedUnnoticed += received;
    known.state = "there";
    known.receipt = receipt;
    known.dequeueCount = message.dequeueCount;
  }
  for (const [id, message] of found) {
    if (ledger.messages.has(id)) continue;
    const text = textOf(message);
    assert.ok(ledger.unsurePuts.has(text), `"${text}" was never put`);
    const { dequeueCount } = message;
    receivedUnnoticed += dequeueCount;
    const receipt = printPopReceipt(message);
    ledger.messages.set(id, { text, receipt, dequeueCount, holder: undefined, state: "there" });
  }
  assert.ok(receivedUnnoticed <= ledger.unsureReceives);
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

interface Answered {
  readonly id: string;
  readonly receipt: string;
  readonly dequeueCount: number;
  readonly text: string;
}

function messagesOf(answer: HttpAnswer): Answered[] {
  const pattern =
    /<MessageId>(.*?)<\/MessageId>.*?<PopReceipt>(.*?)<\/PopReceipt>.*?<\/TimeNextVisible>(?:<DequeueCount>(\d+)<\/DequeueCount><MessageText>(.*?)<\/MessageText>)?/gs;
  return [...answer.text.matchAll(pattern)].map(([, id, receipt, count, text]) => ({
    id: id!,
    receipt: receipt!,
    dequeueCount: Number(count ?? 0),
    text: text ?? "",
  }));
}
