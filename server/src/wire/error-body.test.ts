import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ERRORS } from "@rowhouse/protocol/errors";
import {
  type ErrorBody,
  printErrorTime,
  storageErrorXml,
  tableErrorJson,
  tableErrorXml,
} from "./error-body.ts";

const REQUEST = {
  requestId: "c2bf2a0c-1002-0093-06c7-e3337f000000",
  time: "2021-01-06T01:01:30.9536883Z",
};

describe("An error body", () => {
  it("of tables is the recorded 327 bytes of XML", () => {
    const [, message] = ERRORS.InvalidXmlDocument;
    const body = tableErrorXml({ ...REQUEST, code: "InvalidXmlDocument", message });
    assert.equal(
      body,
      '<?xml version="1.0" encoding="utf-8"?><m:error xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata"><m:code>InvalidXmlDocument</m:code><m:message xml:lang="en-US">XML specified is not syntactically valid.\nRequestId:c2bf2a0c-1002-0093-06c7-e3337f000000\nTime:2021-01-06T01:01:30.9536883Z</m:message></m:error>',
    );
    assert.equal(Buffer.byteLength(body), 327);
  });

  it("of tables is the recorded 299 bytes of JSON", () => {
    const [, message] = ERRORS.AuthenticationFailed;
    const body = tableErrorJson({ ...REQUEST, code: "AuthenticationFailed", message });
    assert.equal(
      body,
      String.raw`{"odata.error":{"code":"AuthenticationFailed","message":{"lang":"en-US","value":"Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.\nRequestId:c2bf2a0c-1002-0093-06c7-e3337f000000\nTime:2021-01-06T01:01:30.9536883Z"}}}`,
    );
    assert.equal(Buffer.byteLength(body), 299);
  });

  it("of queues and blobs ends with the details of the error", () => {
    const facts: ErrorBody = {
      code: "InvalidHeaderValue",
      message: ERRORS.InvalidHeaderValue[1],
      requestId: "6a03526c-ca2c-4358-a63a-b5d096988533",
      time: "2026-07-31T18:00:00.1234567Z",
      details: [
        ["HeaderName", "x-ms-version"],
        ["HeaderValue", "<&>"],
      ],
    };
    assert.equal(
      storageErrorXml(facts),
      '\ufeff<?xml version="1.0" encoding="utf-8"?><Error><Code>InvalidHeaderValue</Code><Message>The value for one of the HTTP headers is not in the correct format.\nRequestId:6a03526c-ca2c-4358-a63a-b5d096988533\nTime:2026-07-31T18:00:00.1234567Z</Message><HeaderName>x-ms-version</HeaderName><HeaderValue>&lt;&amp;&gt;</HeaderValue></Error>',
    );
  });

  it("of queues and blobs is 244 bytes in the worked example without details", () => {
    const body = storageErrorXml({
      code: "InvalidResourceName",
      message: "The specified resource name contains invalid characters.",
      requestId: "6a03526c-ca2c-4358-a63a-b5d096988533",
      time: "2026-07-31T18:00:00.1234567Z",
    });
    assert.equal(Buffer.byteLength(body), 244);
  });

  it("escapes request text that the message quotes", () => {
    const facts = { ...REQUEST, code: "InvalidInput", message: "'é\"\\\u0001<😀'" };
    assert.ok(tableErrorJson(facts).includes(String.raw`'\u00e9\"\\\u0001<\ud83d\ude00'`));
    const { value } = JSON.parse(tableErrorJson(facts))["odata.error"].message;
    assert.ok(value.startsWith(`${facts.message}\n`));
    assert.ok(tableErrorXml(facts).includes("'é\"\\\ufffd&lt;😀'"));
  });

  it("contains the time with seven fractional digits, including zeros", () => {
    assert.equal(
      printErrorTime(Date.UTC(2021, 0, 6, 1, 1, 30, 953)),
      "2021-01-06T01:01:30.9530000Z",
    );
    assert.equal(printErrorTime(0), "1970-01-01T00:00:00.0000000Z");
  });
});
