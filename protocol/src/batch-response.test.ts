import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type BatchResponse,
  batchErrorMessage,
  batchResponseType,
  printBatchResponse,
  tooManyOperations,
} from "./batch-response.ts";
import { ERRORS, type ErrorCode } from "./errors.ts";

const IDS = { batch: "g1", changeset: "g2" };
const LOCATION = "http://127.0.0.1:10002/devstoreaccount1/People(PartitionKey='p',RowKey='1')";
const ETAG = `W/"datetime'2021-01-06T01%3A01%3A33.25Z'"`;
const JSON_TYPE = "application/json;odata=minimalmetadata;streaming=true;charset=utf-8";

describe("The answer to a batch", () => {
  it("names its boundary with the prefix that clients expect", () => {
    assert.equal(batchResponseType(IDS), "multipart/mixed; boundary=batchresponse_g1");
  });

  it("contains an answer for each operation of a successful change set", () => {
    const preferenceApplied = "return-no-content";
    assertPrinted(
      {
        kind: "changeset",
        parts: [
          { kind: "inserted", contentId: "1", preferenceApplied, location: LOCATION, etag: ETAG },
          { kind: "deleted", contentId: "2" },
        ],
      },
      [
        ...changesetHead(),
        "HTTP/1.1 204 No Content",
        "Content-ID: 1",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-cache",
        "Preference-Applied: return-no-content",
        "DataServiceVersion: 3.0;",
        `Location: ${LOCATION}`,
        `DataServiceId: ${LOCATION}`,
        `ETag: ${ETAG}`,
        "",
        "",
        ...partHead(),
        "HTTP/1.1 204 No Content",
        "Content-ID: 2",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-cache",
        "DataServiceVersion: 1.0;",
        "",
        "",
        ...changesetEnd(),
      ],
    );
  });

  it("contains the entity that an insert returns, then its address", () => {
    const content = { type: JSON_TYPE, body: '{"v":"é"}' };
    const preferenceApplied = "return-content";
    assertPrinted(
      {
        kind: "changeset",
        parts: [
          {
            kind: "inserted",
            contentId: "1",
            preferenceApplied,
            location: LOCATION,
            etag: ETAG,
            content,
          },
        ],
      },
      [
        ...changesetHead(),
        "HTTP/1.1 201 Created",
        "DataServiceVersion: 3.0;",
        `Content-Type: ${JSON_TYPE}`,
        "Content-ID: 1",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-cache",
        "Preference-Applied: return-content",
        `Location: ${LOCATION}`,
        `ETag: ${ETAG}`,
        "",
        '{"v":"é"}',
        ...changesetEnd(),
      ],
    );
  });

  it("contains the ETag of an update, and no Content-ID if none was sent", () => {
    assertPrinted({ kind: "changeset", parts: [{ kind: "written", etag: ETAG }] }, [
      ...changesetHead(),
      "HTTP/1.1 204 No Content",
      "X-Content-Type-Options: nosniff",
      "Cache-Control: no-cache",
      "DataServiceVersion: 1.0;",
      `ETag: ${ETAG}`,
      "",
      "",
      ...changesetEnd(),
    ]);
  });

  it("contains only the failure if an insert fails", () => {
    const body = error("EntityAlreadyExists", "0:The specified entity already exists.");
    assertPrinted(
      {
        kind: "changeset",
        parts: [
          {
            kind: "failed",
            contentId: "1",
            preferenceApplied: "return-no-content",
            status: 409,
            code: "EntityAlreadyExists",
            content: { type: JSON_TYPE, body },
          },
        ],
      },
      [
        ...changesetHead(),
        "HTTP/1.1 409 Conflict",
        "Content-ID: 1",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-cache",
        "Preference-Applied: return-no-content",
        "DataServiceVersion: 3.0;",
        `Content-Type: ${JSON_TYPE}`,
        "",
        body,
        ...changesetEnd(),
      ],
    );
  });

  it("contains only the failure if a row appears twice", () => {
    const [, message] = ERRORS.InvalidDuplicateRow;
    const body = error("InvalidDuplicateRow", `1:${message}`);
    assertPrinted(
      {
        kind: "changeset",
        parts: [
          {
            kind: "failed",
            contentId: "2",
            status: 400,
            code: "InvalidDuplicateRow",
            content: { type: JSON_TYPE, body },
          },
        ],
      },
      [
        ...changesetHead(),
        "HTTP/1.1 400 Bad Request",
        "Content-ID: 2",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-cache",
        "DataServiceVersion: 3.0;",
        `Content-Type: ${JSON_TYPE}`,
        "",
        body,
        ...changesetEnd(),
      ],
    );
  });

  it("has no Cache-Control if the table is missing", () => {
    const content = { type: JSON_TYPE, body: "{}" };
    const printed = text({
      kind: "changeset",
      parts: [{ kind: "failed", status: 404, code: "TableNotFound", content }],
    });
    assert.match(printed, /^X-Content-Type-Options: nosniff\r\nDataServiceVersion: 3\.0;\r\n/m);
    assert.doesNotMatch(printed, /Cache-Control/);
  });

  it("contains a failed query without a change set around it", () => {
    const body = error("ResourceNotFound", "0:The specified resource does not exist.");
    assertPrinted(
      {
        kind: "query",
        part: {
          kind: "failed",
          status: 404,
          code: "ResourceNotFound",
          content: { type: JSON_TYPE, body },
        },
      },
      [
        "--batchresponse_g1",
        "Content-Type: application/http",
        "Content-Transfer-Encoding: binary",
        "",
        "HTTP/1.1 404 Not Found",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-cache",
        "DataServiceVersion: 3.0;",
        `Content-Type: ${JSON_TYPE}`,
        "",
        body,
        "--batchresponse_g1--",
        "",
      ],
    );
  });

  it("contains the result of a query, whether text or bytes", () => {
    for (const body of ['{"v":"é"}', new TextEncoder().encode('{"v":"é"}')]) {
      assertPrinted(
        {
          kind: "query",
          part: {
            kind: "queried",
            etag: ETAG,
            headers: [
              ...["x-ms-continuation-NextPartitionKey", "1!4!cDE-"],
              ...["x-ms-continuation-NextRowKey", "1!4!Yw--"],
            ],
            content: { type: JSON_TYPE, body },
          },
        },
        [
          "--batchresponse_g1",
          "Content-Type: application/http",
          "Content-Transfer-Encoding: binary",
          "",
          "HTTP/1.1 200 OK",
          "DataServiceVersion: 3.0;",
          `Content-Type: ${JSON_TYPE}`,
          "X-Content-Type-Options: nosniff",
          "Cache-Control: no-cache",
          "x-ms-continuation-NextPartitionKey: 1!4!cDE-",
          "x-ms-continuation-NextRowKey: 1!4!Yw--",
          `ETag: ${ETAG}`,
          "",
          '{"v":"é"}',
          "--batchresponse_g1--",
          "",
        ],
      );
    }
  });

  it("has a reason phrase for the status of every error", () => {
    for (const [status] of Object.values(ERRORS)) {
      if (status < 400) continue;
      const content = { type: JSON_TYPE, body: "{}" };
      const part = { kind: "failed", status, code: "InternalError", content } as const;
      assert.doesNotMatch(text({ kind: "query", part }), /HTTP\/1\.1 \d+ Error/, String(status));
    }
  });
});

describe("The message of a failure in a batch", () => {
  const message = (
    code: ErrorCode,
    kind: "changeset" | "query",
    index: number,
    operations: number,
  ) => batchErrorMessage({ code, message: "m" }, { kind, index, operations });

  it("begins with the index of the operation", () => {
    assert.equal(message("EntityAlreadyExists", "changeset", 3, 5), "3:m");
    assert.equal(message("ResourceNotFound", "query", 0, 1), "0:m");
  });

  it("has no index if the only operation fails because of its entity", () => {
    const codes = [
      "EntityAlreadyExists",
      "UpdateConditionNotSatisfied",
      "ResourceNotFound",
    ] as const;
    for (const code of codes) assert.equal(message(code, "changeset", 0, 1), "m");
    assert.equal(message("PropertyValueTooLarge", "changeset", 0, 1), "m");
  });

  it("has an index if the only operation fails because of its table or form", () => {
    assert.equal(message("TableNotFound", "changeset", 0, 1), "0:m");
    assert.equal(message("InvalidInput", "changeset", 0, 1), "0:m");
    assert.equal(message("AtomFormatNotSupported", "changeset", 0, 1), "0:m");
  });

  it("has an index if the caller lacks permission for the only operation", () => {
    assert.equal(message("AuthorizationFailure", "changeset", 0, 1), "0:m");
    assert.equal(message("AuthorizationPermissionMismatch", "changeset", 0, 1), "0:m");
  });

  it("has index 99 if there are too many operations", () => {
    const { code, status, message } = tooManyOperations();
    assert.deepEqual([code, status], ["InvalidInput", 400]);
    assert.equal(
      message,
      "99:The batch request operation exceeds the maximum 100 changes per change set.",
    );
  });
});

function assertPrinted(response: BatchResponse, lines: readonly string[]): void {
  assert.equal(text(response), lines.join("\r\n"));
}

function text(response: BatchResponse): string {
  return new TextDecoder().decode(printBatchResponse(response, IDS));
}

function changesetHead(): string[] {
  const type = "Content-Type: multipart/mixed; boundary=changesetresponse_g2";
  return ["--batchresponse_g1", type, "", ...partHead()];
}

function partHead(): string[] {
  return [
    "--changesetresponse_g2",
    "Content-Type: application/http",
    "Content-Transfer-Encoding: binary",
    "",
  ];
}

function changesetEnd(): string[] {
  return ["--changesetresponse_g2--", "--batchresponse_g1--", ""];
}

function error(code: ErrorCode, message: string): string {
  const value = `${message}\\nRequestId:c2bf2a0c-1002-0093-06c7-e3337f000000\\nTime:2021-01-06T01:01:30.9536883Z`;
  return `{"odata.error":{"code":"${code}","message":{"lang":"en-US","value":"${value}"}}}`;
}
