import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { openTestEngine } from "../support/test-engine.ts";
import { type LocalServer, startLocalServer } from "./local-server.ts";
import { serviceSas, tomorrow } from "./queue-sas.ts";
import { QueueWire } from "./queue-wire.ts";
import { assertStorageRefused } from "./storage-refusals.ts";

const engine = await openTestEngine();
let server: LocalServer;
let wire: QueueWire;
let queues = 0;

before(async () => {
  server = await startLocalServer({ engine, listen: { queue: { host: "127.0.0.1", port: 0 } } });
  wire = new QueueWire(server.urls.queue!);
});
after(async () => {
  wire.close();
  await server.close();
});

describe("Stored access policies", () => {
  const identifier = (id: string, policy = "") =>
    `<SignedIdentifier><Id>${id}</Id>${policy}</SignedIdentifier>`;
  const setPolicies = (queue: string, ...identifiers: string[]) =>
    wire.send("PUT", `${queue}?comp=acl`, {
      body: `<SignedIdentifiers>${identifiers.join("")}</SignedIdentifiers>`,
    });

  it("are at most five, with unique ids, and are returned as they were sent", async () => {
    const queue = await newQueue();
    const policy =
      "<AccessPolicy><Start>2026-01-01</Start><Expiry>2027-01-01T00:00:00.0000000Z</Expiry><Permission>raup</Permission></AccessPolicy>";
    const five = ["a", "b", "c", "d"].map((id) => identifier(id));
    assert.equal((await setPolicies(queue, identifier("e", policy), ...five)).status, 204);
    const answer = await wire.send("GET", `${queue}?comp=acl`);
    assert.equal(
      answer.text,
      `\ufeff<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers>${identifier("e", policy)}${five.join("")}</SignedIdentifiers>`,
    );
    for (const wrong of [
      ["a", "b", "c", "d", "e", "f"].map((id) => identifier(id)),
      [identifier("a"), identifier("a")],
      [identifier("")],
      [identifier("x".repeat(65))],
    ]) {
      assertStorageRefused(await setPolicies(queue, ...wrong), 400, "InvalidXmlDocument");
    }
    for (const [wrong, code] of [
      ["<AccessPolicy><Permission>x</Permission></AccessPolicy>", "InvalidXmlDocument"],
      ["<AccessPolicy><Expiry>tomorrow</Expiry></AccessPolicy>", "InvalidXmlNodeValue"],
    ] as const) {
      assertStorageRefused(await setPolicies(queue, identifier("a", wrong)), 400, code);
    }
    assert.equal((await wire.send("PUT", `${queue}?comp=acl`)).status, 204);
    const none = await wire.send("GET", `${queue}?comp=acl`);
    assert.match(none.text, /<SignedIdentifiers \/>$/);
  });

  it("and service properties may be sent in up to 131,072 bytes", async () => {
    const queue = await newQueue();
    for (const [path, root, content] of [
      [`${queue}?comp=acl`, "SignedIdentifiers", ""],
      ["/?restype=service&comp=properties", "StorageServiceProperties", "<Cors />"],
    ] as const) {
      const send = (bytes: number) => {
        const body = `<${root}>${content.padEnd(bytes - 2 * root.length - 5)}</${root}>`;
        assert.equal(body.length, bytes);
        return wire.send("PUT", path, { body });
      };
      assert.ok((await send(131_072)).status < 300, path);
      for (const bytes of [131_073, 1_000_000]) {
        const details = assertStorageRefused(await send(bytes), 413, "RequestBodyTooLarge");
        assert.deepEqual(details, { MaxLimit: "131072" });
      }
    }
  });

  it("supply the fields that a token lacks, from the moment they are stored until they are removed", async () => {
    const queue = await newQueue();
    const sas = serviceSas({ queue: queue.slice(1), si: "reader" });
    const look = () => wire.send("GET", `${queue}/messages?peekonly=true`, { sas });
    assertStorageRefused(await look(), 403, "AuthenticationFailed");
    const policy = (letters: string) =>
      `<AccessPolicy><Expiry>${tomorrow()}</Expiry><Permission>${letters}</Permission></AccessPolicy>`;
    await setPolicies(queue, identifier("reader", policy("r")));
    assert.equal((await look()).status, 200);
    await setPolicies(queue, identifier("reader", policy("p")));
    assertStorageRefused(await look(), 403, "AuthorizationPermissionMismatch");
    await setPolicies(queue, identifier("reader"));
    assertStorageRefused(await look(), 403, "AuthenticationFailed");
    await setPolicies(queue, identifier("reader", policy("r")));
    const both = serviceSas({ queue: queue.slice(1), si: "reader", sp: "r" });
    const { AuthenticationErrorDetail } = assertStorageRefused(
      await wire.send("GET", `${queue}/messages?peekonly=true`, { sas: both }),
      403,
      "AuthenticationFailed",
    );
    assert.match(AuthenticationErrorDetail!, /not both$/);
    await setPolicies(queue);
    assertStorageRefused(await look(), 403, "AuthenticationFailed");
  });
});

describe("Service properties", () => {
  const PROPERTIES = "/?restype=service&comp=properties";
  const set = (content: string) =>
    wire.send("PUT", PROPERTIES, {
      body: `<StorageServiceProperties>${content}</StorageServiceProperties>`,
    });

  it("are all off at first, and change group by group", async () => {
    const off = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";
    const metrics = (name: string) =>
      `<${name}><Version>1.0</Version><Enabled>false</Enabled>${off}</${name}>`;
    const logging = (read: boolean) =>
      `<Logging><Version>1.0</Version><Delete>false</Delete><Read>${read}</Read><Write>false</Write>${off}</Logging>`;
    const rest = metrics("HourMetrics") + metrics("MinuteMetrics");
    const body = async () =>
      /<StorageServiceProperties>(.*)<\//.exec((await wire.send("GET", PROPERTIES)).text)?.[1];
    assert.equal(await body(), `${logging(false)}${rest}<Cors />`);
    assert.equal((await set(logging(true))).status, 202);
    assert.equal(await body(), `${logging(true)}${rest}<Cors />`);
    const rule =
      "<CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>1</MaxAgeInSeconds><ExposedHeaders /><AllowedHeaders /></CorsRule>";
    await set(`<Cors>${rule}</Cors>`);
    assert.equal(await body(), `${logging(true)}${rest}<Cors>${rule}</Cors>`);
    await set(`<Cors />${logging(false)}`);
    assert.equal(await body(), `${logging(false)}${rest}<Cors />`);
  });

  it("are refused if they are invalid", async () => {
    for (const [content, code] of [
      ["<Unknown />", "UnsupportedXmlNode"],
      ["<DefaultServiceVersion>2020-01-01</DefaultServiceVersion>", "UnsupportedXmlNode"],
      ["<Logging />", "MissingRequiredXmlNode"],
      ["<", "InvalidXmlDocument"],
    ] as const) {
      assertStorageRefused(await set(content), 400, code);
    }
  });
});

async function newQueue(): Promise<string> {
  const queue = `/queue-${queues++}`;
  assert.equal((await wire.send("PUT", queue)).status, 201);
  return queue;
}
