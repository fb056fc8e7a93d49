import assert from "node:assert/strict";
import type { HttpAnswer } from "./http-answer.ts";

export interface Refusal {
  readonly status: number;
  readonly code: string;
  /** The text before the `RequestId` line. */
  readonly message?: string | RegExp;
}

/** Parses a refusal in one of the service's forms and checks the parts that every refusal has. */
export function readRefusal(
  answer: HttpAnswer,
): Refusal & { message: string; form: "json" | "xml" } {
  const isJson = answer.header("content-type")?.startsWith("application/json") ?? false;
  const { code, text } = isJson ? readJson(answer) : readXml(answer);
  const [, message, requestId] =
    /^(.*)\nRequestId:([0-9a-f-]{36})\nTime:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z$/s.exec(text) ??
    [];
  assert.ok(message !== undefined, `This is no error text: ${text}`);
  assert.equal(requestId, answer.header("x-ms-request-id"), "the request id in the body");
  return { status: answer.status, code, message, form: isJson ? "json" : "xml" };
}

function readJson(answer: HttpAnswer): { code: string; text: string } {
  const body = answer.json() as { "odata.error": { code: string; message: { value: string } } };
  const { code, message } = body["odata.error"];
  return { code, text: message.value };
}

function readXml(answer: HttpAnswer): { code: string; text: string } {
  const [, code, text] =
    /^<\?xml version="1\.0" encoding="utf-8"\?><m:error xmlns:m="[^"]+"><m:code>(\w+)<\/m:code><m:message xml:lang="en-US">(.*)<\/m:message><\/m:error>$/s.exec(
      answer.text,
    ) ?? [];
  assert.ok(code !== undefined && text !== undefined, `This is no error body: ${answer}`);
  assert.equal(answer.header("content-type"), "application/xml");
  return { code, text };
}

/** Checks for this refusal, and for its form if `form` is given. */
export function assertRefused(answer: HttpAnswer, expected: Refusal, form?: "json" | "xml"): void {
  const { message, ...found } = readRefusal(answer);
  assert.deepEqual(
    { status: found.status, code: found.code },
    { status: expected.status, code: expected.code },
    String(answer),
  );
  assert.equal(answer.header("x-ms-error-code"), expected.code);
  if (typeof expected.message === "string") assert.equal(message, expected.message);
  else if (expected.message) assert.match(message, expected.message);
  if (form) assert.equal(found.form, form);
}
