import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { it } from "node:test";
import type { Target } from "./request-writer.ts";
import { SharedKeyWriter } from "./shared-key-writer.ts";

const target: Target = {
  service: "blob",
  host: "h",
  port: 1,
  account: "alice",
  keyBase64: Buffer.alloc(64, 1).toString("base64"),
};

it("a queue or blob request carries the headers that its signature covers", () => {
  const text = new SharedKeyWriter(target).write("PUT", "/things/log", {
    query: [["comp", "append block"]],
    contentType: "text/plain",
    ifNoneMatch: "*",
    blobType: "AppendBlob",
    bodyBytes: 4096,
  });
  const lines = text.split("\r\n");
  assert.equal(lines[0], "PUT /alice/things/log?comp=append%20block HTTP/1.1");
  const header = (name: string) =>
    lines.find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1);
  const signed = ["x-ms-blob-type", "x-ms-client-request-id", "x-ms-date", "x-ms-version"];
  const toSign =
    `PUT\n\n\n${header("Content-Length")?.trim()}\n\n${header("Content-Type")?.trim()}\n\n\n\n` +
    `${header("If-None-Match")?.trim()}\n\n\n${signed.map((name) => `${name}:${header(name)}\n`).join("")}` +
    "/alice/alice/things/log\ncomp:append block";
  const key = Buffer.from(target.keyBase64, "base64");
  const signature = createHmac("sha256", key).update(toSign).digest("base64");
  assert.equal(header("Authorization"), ` SharedKey alice:${signature}`);
});
