import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { openTestEngine } from "../support/test-engine.ts";
import type { HttpAnswer } from "./http-answer.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { QueueWire } from "./queue-wire.ts";
import { assertStorageRefused } from "./storage-refusals.ts";

const DAY_SECONDS = 86_400;

const engine = await openTestEngine();
// Stands still, so that a message hidden for a second stays hidden even on the busiest machine.
let now = Date.now();
const clock = { now: () => now };
let server: LocalServer;
let wire: QueueWire;
let queues = 0;

before(async () => {
  const listen = { queue: { host: "127.0.0.1", port: 0 } };
  server = await startLocalServer({ engine, clock, listen });
  wire = new QueueWire(server.urls.queue!);
});
after(async () => {
  wire.close();
  await server.close();
});

describe("Create Queue", () => {
  it("answers 201 for a new queue, 204 for the same metadata and 409 for different metadata", async () => {
    const create = (headers: Record<string, string>) => wire.send("PUT", "/created", { headers });
    const metadata = { "x-ms-meta-Owner": "ops", "x-ms-meta-zone": "eu" };
    assert.equal((await create(metadata)).status, 201);
    assert.equal(
      (await create({ "x-ms-meta-OWNER": "ops", "x-ms-meta-Zone": " eu " })).status,
      204,
    );
    for (const other of [
      { ...metadata, "x-ms-meta-zone": "EU" },
      { "x-ms-meta-Owner": "ops" },
      {},
    ]) {
      assertStorageRefused(await create(other), 409, "QueueAlreadyExists");
    }
    assert.equal((await wire.send("PUT", "/created2")).status, 201);
    assert.equal((await wire.send("PUT", "/created2")).status, 204);
  });

  it("refuses invalid names and metadata", async () => {
    for (const [name, code] of [
      ["ab", "OutOfRangeInput"],
      ["a".repeat(64), "OutOfRangeInput"],
      ["a--b", "InvalidResourceName"],
      ["-ab", "InvalidResourceName"],
      ["UPPER", "InvalidResourceName"],
    ] as const) {
      assertStorageRefused(await wire.send("PUT", `/${name}`), 400, code);
    }
    for (const [headers, code] of [
      [{ "x-ms-meta-": "x" }, "EmptyMetadataKey"],
      [{ "x-ms-meta-a-b": "x" }, "InvalidMetadata"],
      [{ "x-ms-meta-a": "x".repeat(8192) }, "MetadataTooLarge"],
    ] as const) {
      assertStorageRefused(await wire.send("PUT", "/created3", { headers }), 400, code);
    }
  });
});

describe("Set Queue Metadata", () => {
  it("replaces all existing metadata and keeps the case of names", async () => {
    const queue = await newQueue({ "x-ms-meta-Old": "1" });
    const set = (headers: Record<string, string>) =>
      wire.send("PUT", `${queue}?comp=metadata`, { headers });
    assert.equal((await set({ "x-ms-meta-New": "2", "x-ms-meta-_b": "" })).status, 204);
    const answer = await wire.send("GET", `${queue}?comp=metadata`);
    const metadata = answer.headers.filter(([name]) => name.startsWith("x-ms-meta-"));
    assert.deepEqual(metadata, [
      ["x-ms-meta-New", "2"],
      ["x-ms-meta-_b", ""],
    ]);
    assert.equal(answer.header("x-ms-approximate-messages-count"), "0");
    assert.equal((await set({})).status, 204);
    const none = await wire.send("GET", `${queue}?comp=metadata`);
    assert.ok(!none.headers.some(([name]) => name.startsWith("x-ms-meta-")));
  });
});

describe("Put Message", () => {
  it("accepts any text that XML can carry and returns it unchanged", async () => {
    const queue = await newQueue();
    const texts: [escaped: string, text: string][] = [
      ["", ""],
      ["   ", "   "],
      ["&lt;&gt;&amp;&quot;&apos;", "<>&\"'"],
      ["😀 日本語", "😀 日本語"],
      ["x".repeat(65_536), "x".repeat(65_536)],
      [`<![CDATA[${"&".repeat(65_536)}]]>`, "&".repeat(65_536)],
      ["&amp;".repeat(26_000), "&".repeat(26_000)],
    ];
    for (const [escaped, text] of texts) {
      const put = await putText(queue, escaped);
      assert.equal(put.status, 201, put.text);
      const [message] = messagesOf(await wire.send("GET", `${queue}/messages`));
      assert.equal(unescaped(message!.MessageText!), text);
      assert.doesNotMatch(message!.MessageText!, /&#/);
    }
  });

  it("refuses texts that are too large or that XML cannot carry", async () => {
    const queue = await newQueue();
    const details = assertStorageRefused(
      await putText(queue, "x".repeat(65_537)),
      413,
      "RequestBodyTooLarge",
    );
    assert.deepEqual(details, { MaxLimit: "65536" });
    assertStorageRefused(await putText(queue, "\u0001"), 400, "InvalidXmlDocument");
    const send = (body: string) => wire.send("POST", `${queue}/messages`, { body });
    assertStorageRefused(await send("<QueueMessage/>"), 400, "MissingRequiredXmlNode");
    assertStorageRefused(await send("<Other/>"), 400, "InvalidXmlDocument");
    assertStorageRefused(await send(""), 400, "InvalidXmlDocument");
    assert.equal(await countOf(queue), 0);
  });

  it("lets messages live for seven days by default, for messagettl, or for ever", async () => {
    const queue = await newQueue();
    const life = async (parameter: string) => {
      const [message] = messagesOf(await putText(queue, "x", parameter));
      const { ExpirationTime, InsertionTime } = message!;
      return (Date.parse(ExpirationTime!) - Date.parse(InsertionTime!)) / 1000;
    };
    assert.equal(await life(""), 7 * DAY_SECONDS);
    assert.equal(await life("?messagettl=1"), 1);
    assert.equal(await life("?messagettl=31536000"), 31_536_000);
    for (const huge of ["-1", "999999999999", "999999999999999999"]) {
      const [message] = messagesOf(await putText(queue, "x", `?messagettl=${huge}`));
      assert.equal(message!.ExpirationTime, "Fri, 31 Dec 9999 23:59:59 GMT");
    }
    for (const wrong of ["0", "-2", "x", "", "1.5", "9".repeat(20), "9".repeat(500)]) {
      const answer = await putText(queue, "x", `?messagettl=${wrong}`);
      const details = assertStorageRefused(answer, 400, "InvalidQueryParameterValue");
      assert.equal(details.QueryParameterName, "messagettl");
      assert.equal(details.QueryParameterValue, wrong);
      if (wrong !== "0") continue;
      assert.equal(
        details.Reason,
        "Value must be greater than or equal to 1, or -1 to indicate an infinite TTL.",
      );
    }
  });

  it("hides a message only for less than its time to live", async () => {
    const queue = await newQueue();
    const [message] = messagesOf(await putText(queue, "x", "?visibilitytimeout=60"));
    const { InsertionTime, TimeNextVisible } = message!;
    assert.equal(Date.parse(TimeNextVisible!) - Date.parse(InsertionTime!), 60_000);
    assert.equal(
      (await putText(queue, "x", "?visibilitytimeout=604800&messagettl=-1")).status,
      201,
    );
    for (const parameters of [
      "?visibilitytimeout=604800",
      "?visibilitytimeout=60&messagettl=60",
      "?visibilitytimeout=61&messagettl=60",
    ]) {
      const answer = await putText(queue, "x", parameters);
      const details = assertStorageRefused(answer, 400, "InvalidQueryParameterValue");
      assert.equal(details.Reason, "messagettl must be greater than visibilitytimeout.");
    }
    for (const wrong of ["-1", "604801"]) {
      const answer = await putText(queue, "x", `?visibilitytimeout=${wrong}`);
      const details = assertStorageRefused(answer, 400, "OutOfRangeQueryParameterValue");
      assert.equal(details.MinimumAllowed, "0");
      assert.equal(details.MaximumAllowed, "604800");
    }
  });

  it("returns a receipt that is valid for update and delete", async () => {
    const queue = await newQueue();
    const [message] = messagesOf(await putText(queue, "x", "?visibilitytimeout=60"));
    const updated = await update(queue, message!, 0);
    assert.equal(updated.status, 204);
    assert.equal((await peek(queue)).length, 1);
    const held = { ...message!, PopReceipt: updated.header("x-ms-popreceipt")! };
    assert.equal((await remove(queue, held)).status, 204);
  });
});

describe("Get and Peek Messages", () => {
  it("return exactly the documented fields, in order", async () => {
    const queue = await newQueue();
    const fields = (answer: HttpAnswer) => Object.keys(messagesOf(answer)[0]!);
    const identity = ["MessageId", "InsertionTime", "ExpirationTime"];
    const hold = ["PopReceipt", "TimeNextVisible"];
    const content = ["DequeueCount", "MessageText"];
    assert.deepEqual(fields(await putText(queue, "x")), [...identity, ...hold]);
    const peeked = await wire.send("GET", `${queue}/messages?peekonly=true`);
    assert.deepEqual(fields(peeked), [...identity, ...content]);
    const received = await wire.send("GET", `${queue}/messages`);
    assert.deepEqual(fields(received), [...identity, ...hold, ...content]);
  });

  it("hide and count a received message, while peeking changes nothing", async () => {
    const queue = await newQueue();
    await putText(queue, "x");
    assert.deepEqual(
      (await peek(queue)).map(({ DequeueCount }) => DequeueCount),
      ["0"],
    );
    const [first] = messagesOf(await wire.send("GET", `${queue}/messages?visibilitytimeout=5`));
    assert.equal(first!.DequeueCount, "1");
    assert.deepEqual(await peek(queue), []);
    await pass(5000);
    assert.deepEqual(
      (await peek(queue)).map(({ DequeueCount }) => DequeueCount),
      ["1"],
    );
    const [second] = messagesOf(await wire.send("GET", `${queue}/messages`));
    assert.equal(second!.DequeueCount, "2");
    assert.equal(second!.MessageId, first!.MessageId);
    assert.notEqual(second!.PopReceipt, first!.PopReceipt);
    await pass(30_000);
    assert.equal((await peek(queue)).length, 1, "thirty seconds unless told otherwise");
  });

  it("return up to 32 messages, each with its own receipt", async () => {
    const queue = await newQueue();
    for (let i = 0; i < 40; i++) await putText(queue, `${i}`);
    assert.equal((await peek(queue)).length, 32);
    const received = messagesOf(await wire.send("GET", `${queue}/messages?numofmessages=32`));
    assert.deepEqual(
      received.map(({ MessageText }) => MessageText),
      Array.from({ length: 32 }, (_, i) => `${i}`),
    );
    assert.equal(new Set(received.map(({ PopReceipt }) => PopReceipt)).size, 32);
    assert.equal(
      messagesOf(await wire.send("GET", `${queue}/messages?numofmessages=32`)).length,
      8,
    );
  });

  it("refuse counts and timeouts out of range", async () => {
    const queue = await newQueue();
    for (const [parameters, name, min, max] of [
      ["numofmessages=0", "numofmessages", "1", "32"],
      ["numofmessages=33", "numofmessages", "1", "32"],
      ["peekonly=true&numofmessages=33", "numofmessages", "1", "32"],
      ["visibilitytimeout=0", "visibilitytimeout", "1", "604800"],
      ["visibilitytimeout=604801", "visibilitytimeout", "1", "604800"],
    ] as const) {
      const answer = await wire.send("GET", `${queue}/messages?${parameters}`);
      const details = assertStorageRefused(answer, 400, "OutOfRangeQueryParameterValue");
      assert.equal(details.QueryParameterName, name);
      assert.equal(details.MinimumAllowed, min);
      assert.equal(details.MaximumAllowed, max);
    }
    const ignored = `${queue}/messages?peekonly=true&visibilitytimeout=0`;
    assert.equal((await wire.send("GET", ignored)).status, 200);
    const peekonly = await wire.send("GET", `${queue}/messages?peekonly=perhaps`);
    assert.equal(
      assertStorageRefused(peekonly, 400, "InvalidQueryParameterValue").QueryParameterName,
      "peekonly",
    );
    const wrong = await wire.send("GET", `${queue}/messages?numofmessages=x`);
    assertStorageRefused(wrong, 400, "InvalidQueryParameterValue");
  });

  it("neither return nor count expired messages", async () => {
    const queue = await newQueue();
    await putText(queue, "x", "?messagettl=5");
    await putText(queue, "y", "?messagettl=5&visibilitytimeout=4");
    assert.equal(await countOf(queue), 2);
    await pass(5000);
    assert.deepEqual(await peek(queue), []);
    assert.deepEqual(messagesOf(await wire.send("GET", `${queue}/messages`)), []);
    assert.equal(await countOf(queue), 0);
  });

  it("let consumers move poison messages aside, by their dequeue count", async () => {
    const [queue, poison] = [await newQueue(), await newQueue()];
    await putText(queue, "bad");
    for (let tries = 1; ; tries++) {
      const [message] = messagesOf(await wire.send("GET", `${queue}/messages?visibilitytimeout=1`));
      assert.equal(message!.DequeueCount, String(tries));
      if (tries > 3) {
        await putText(poison, message!.MessageText!);
        assert.equal((await remove(queue, message!)).status, 204);
        break;
      }
      await pass(1000);
    }
    assert.equal(await countOf(queue), 0);
    assert.equal((await peek(poison))[0]?.MessageText, "bad");
  });
});

describe("Update and Delete Message", () => {
  it("need the newest receipt", async () => {
    const queue = await newQueue();
    await putText(queue, "x");
    const [first] = messagesOf(await wire.send("GET", `${queue}/messages?visibilitytimeout=1`));
    await pass(60_000);
    const updated = await update(queue, first!, 1);
    assert.equal(updated.status, 204, "also after its time, until it is received again");
    assertStorageRefused(await remove(queue, first!), 404, "MessageNotFound");
    await pass(1000);
    const [second] = messagesOf(await wire.send("GET", `${queue}/messages`));
    const held = { ...first!, PopReceipt: updated.header("x-ms-popreceipt")! };
    assertStorageRefused(await remove(queue, held), 404, "MessageNotFound");
    assertStorageRefused(await update(queue, held, 0), 404, "MessageNotFound");
    assert.equal((await remove(queue, second!)).status, 204);
    assertStorageRefused(await remove(queue, second!), 404, "MessageNotFound");
  });

  it("refuse malformed receipts, and receipts of other messages or queues", async () => {
    const [queue, other] = [await newQueue(), await newQueue()];
    const [message] = messagesOf(await putText(queue, "x"));
    const [another] = messagesOf(await putText(queue, "y"));
    const details = assertStorageRefused(
      await remove(queue, { ...message!, PopReceipt: "garbage" }),
      400,
      "InvalidQueryParameterValue",
    );
    assert.deepEqual(details, {
      QueryParameterName: "popreceipt",
      QueryParameterValue: "garbage",
      Reason: "Invalid pop receipt format",
    });
    for (const wrong of [
      { ...message!, PopReceipt: another!.PopReceipt! },
      { ...message!, MessageId: "00000000-0000-4000-8000-000000000000" },
      { ...message!, MessageId: "no-guid" },
    ]) {
      assertStorageRefused(await remove(queue, wrong), 404, "MessageNotFound");
      assertStorageRefused(await update(queue, wrong, 0), 404, "MessageNotFound");
    }
    assertStorageRefused(await remove(other, message!), 404, "MessageNotFound");
    const upper = { ...message!, MessageId: message!.MessageId!.toUpperCase() };
    assert.equal((await remove(queue, upper)).status, 204);
  });

  it("refuse a missing popreceipt or visibilitytimeout, and a timeout out of range", async () => {
    const queue = await newQueue();
    const [message] = messagesOf(await putText(queue, "x"));
    const path = `${queue}/messages/${message!.MessageId}`;
    const missing = async (method: string, query: string) =>
      assertStorageRefused(
        await wire.send(method, `${path}?${query}`),
        400,
        "MissingRequiredQueryParameter",
      ).QueryParameterName;
    assert.equal(await missing("DELETE", ""), "popreceipt");
    assert.equal(await missing("PUT", "visibilitytimeout=0"), "popreceipt");
    assert.equal(await missing("PUT", `popreceipt=${message!.PopReceipt}`), "visibilitytimeout");
    for (const seconds of [-1, 604_801]) {
      const answer = await update(queue, message!, seconds);
      assertStorageRefused(answer, 400, "OutOfRangeQueryParameterValue");
    }
  });

  it("change the text only if one is sent, and nothing else of the message", async () => {
    const queue = await newQueue();
    const [put] = messagesOf(await putText(queue, "x"));
    const [before] = messagesOf(await wire.send("GET", `${queue}/messages`));
    const unchanged = await update(queue, before!, 0);
    assert.equal((await peek(queue))[0]?.MessageText, "x");
    const body = "<QueueMessage><MessageText /></QueueMessage>";
    const held = { ...before!, PopReceipt: unchanged.header("x-ms-popreceipt")! };
    const cleared = await update(queue, held, 0, body);
    assert.match(cleared.header("x-ms-time-next-visible") ?? "", / GMT$/);
    const [after] = await peek(queue);
    assert.deepEqual(after, {
      MessageId: put!.MessageId,
      InsertionTime: put!.InsertionTime,
      ExpirationTime: put!.ExpirationTime,
      DequeueCount: "1",
      MessageText: "",
    });
    const held2 = { ...held, PopReceipt: cleared.header("x-ms-popreceipt")! };
    assertStorageRefused(await update(queue, held2, 0, "<x/>"), 400, "InvalidXmlDocument");
    const bodyOf = (text: string) =>
      `<QueueMessage><MessageText>${text}</MessageText></QueueMessage>`;
    for (const [text, limit] of [
      ["x".repeat(65_537), "65536"],
      ["&amp;".repeat(27_000), "131584"],
    ] as const) {
      const refused = await update(queue, held2, 60, bodyOf(text));
      const { MaxLimit } = assertStorageRefused(refused, 413, "RequestBodyTooLarge");
      assert.equal(MaxLimit, limit);
    }
    assert.equal((await remove(queue, held2)).status, 204, "what was refused changed nothing");
  });

  it("refuse to hide a message beyond its expiry", async () => {
    const queue = await newQueue();
    const [message] = messagesOf(await putText(queue, "x", "?messagettl=60"));
    const answer = await update(queue, message!, 61);
    const details = assertStorageRefused(answer, 400, "InvalidQueryParameterValue");
    assert.equal(details.QueryParameterName, "visibilitytimeout");
    assert.equal((await update(queue, message!, 50)).status, 204);
  });

  it("refuse receipts from before a queue was deleted and created again", async () => {
    const queue = await newQueue();
    const [message] = messagesOf(await putText(queue, "x"));
    assert.equal((await wire.send("DELETE", queue)).status, 204);
    assertStorageRefused(await remove(queue, message!), 404, "QueueNotFound");
    assert.equal((await wire.send("PUT", queue)).status, 201);
    assertStorageRefused(await remove(queue, message!), 404, "MessageNotFound");
    assert.deepEqual(await peek(queue), []);
  });
});

describe("Clear Messages", () => {
  it("removes all messages, visible or not, and may be repeated", async () => {
    const queue = await newQueue();
    const [hidden] = messagesOf(await putText(queue, "hidden", "?visibilitytimeout=60"));
    await putText(queue, "visible");
    assert.equal((await wire.send("DELETE", `${queue}/messages`)).status, 204);
    assert.equal((await wire.send("DELETE", `${queue}/messages`)).status, 204);
    assert.equal(await countOf(queue), 0);
    assertStorageRefused(await remove(queue, hidden!), 404, "MessageNotFound");
    await putText(queue, "new");
    assert.equal(await countOf(queue), 1);
  });
});

interface MessageFields {
  readonly [name: string]: string | undefined;
}

async function newQueue(headers: Record<string, string> = {}): Promise<string> {
  const queue = `/queue-${queues++}`;
  assert.equal((await wire.send("PUT", queue, { headers })).status, 201);
  return queue;
}

function putText(queue: string, escaped: string, parameters = ""): Promise<HttpAnswer> {
  const body = `<QueueMessage><MessageText>${escaped}</MessageText></QueueMessage>`;
  return wire.send("POST", `${queue}/messages${parameters}`, { body });
}

function update(
  queue: string,
  message: MessageFields,
  seconds: number,
  body?: string,
): Promise<HttpAnswer> {
  const query = `popreceipt=${message.PopReceipt}&visibilitytimeout=${seconds}`;
  return wire.send("PUT", `${queue}/messages/${message.MessageId}?${query}`, { body });
}

function remove(queue: string, message: MessageFields): Promise<HttpAnswer> {
  const query = `popreceipt=${message.PopReceipt}`;
  return wire.send("DELETE", `${queue}/messages/${message.MessageId}?${query}`);
}

async function peek(queue: string): Promise<MessageFields[]> {
  return messagesOf(await wire.send("GET", `${queue}/messages?peekonly=true&numofmessages=32`));
}

async function countOf(queue: string): Promise<number> {
  const answer = await wire.send("GET", `${queue}?comp=metadata`);
  return Number(answer.header("x-ms-approximate-messages-count"));
}

/** The messages of a list, as their elements. */
function messagesOf(answer: HttpAnswer): MessageFields[] {
  assert.ok(answer.status < 300, answer.text);
  const list = /<QueueMessagesList(?: \/>|>(.*)<\/QueueMessagesList>)$/s.exec(answer.text);
  assert.ok(list, answer.text);
  return [...(list[1] ?? "").matchAll(/<QueueMessage>(.*?)<\/QueueMessage>/gs)].map(([, content]) =>
    Object.fromEntries(
      [...content!.matchAll(/<(\w+)(?: \/>|>(.*?)<\/\1>)/gs)].map(([, name, text]) => [
        name!,
        text ?? "",
      ]),
    ),
  );
}

function unescaped(text: string): string {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

/** Lets time pass for the server only; requests are signed for the real time. */
async function pass(milliseconds: number): Promise<void> {
  now += milliseconds;
}
