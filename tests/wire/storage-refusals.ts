import assert from "node:assert/strict";
import type { HttpAnswer } from "./http-answer.ts";

/** Further elements of an error body, by name, in the order sent. */
export type Details = Readonly<Record<string, string>>;

/** Checks for a refusal in the form of Queue and Blob; returns the details of its body. */
export function assertStorageRefused(answer: HttpAnswer, status: number, code: string): Details {
  assert.equal(`${answer.status} ${answer.header("x-ms-error-code")}`, `${status} ${code}`);
  const hasBody = answer.body.length > 0;
  assert.equal(answer.header("content-type"), hasBody ? "application/xml" : undefined);
  if (!hasBody) return {};
  const [, found, message, requestId, rest = ""] =
    /^\ufeff<\?xml version="1\.0" encoding="utf-8"\?><Error><Code>(\w+)<\/Code><Message>(.*)\nRequestId:([0-9a-f-]{36})\nTime:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z<\/Message>(.*)<\/Error>$/s.exec(
      answer.text,
    ) ?? [];
  assert.equal(found, code, answer.text);
  assert.ok(message);
  assert.equal(requestId, answer.header("x-ms-request-id"));
  const details = rest.matchAll(/<(\w+)>(.*?)<\/\1>|<(\w+) \/>/gs);
  return Object.fromEntries(
    [...details].map(([, name, text, empty]) => [name ?? empty, text ?? ""]),
  );
}
