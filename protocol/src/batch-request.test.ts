import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseBatch } from "./batch-mime.ts";
import {
  type ChangesetOperation,
  changesetBytes,
  changesetType,
  printChangeset,
  readChangesetAnswer,
} from "./batch-request.ts";
import { printBatchResponse } from "./batch-response.ts";

const IDS = { batch: "b", changeset: "c" };

describe("A change set as a client sends it", () => {
  it("is read by the service as the same operations, and no longer than foretold", () => {
    const operations: ChangesetOperation[] = [
      { method: "POST", url: "http://h/a/T", body: '{"PartitionKey":"ü","RowKey":"1"}' },
      { method: "DELETE", url: "http://h/a/T(PartitionKey='p',RowKey='2')", ifMatch: 'W/"1"' },
      { method: "MERGE", url: "http://h/a/T(PartitionKey='p',RowKey='3')", body: "{}" },
    ];
    const body = new TextEncoder().encode(printChangeset(operations, "1"));
    const parsed = parseBatch(changesetType("1"), body);
    assert.ok(parsed.kind === "changeset");
    assert.deepEqual(
      parsed.operations.map(({ method, url, headers, body: text }) => ({
        ...{ method, url },
        ...(headers.has("if-match") && { ifMatch: headers.get("if-match") }),
        ...(text.length > 0 && { body: new TextDecoder().decode(text) }),
      })),
      operations,
    );
    const foretold = operations.reduce((sum, each) => sum + changesetBytes(each), 0);
    assert.ok(body.length < foretold, `${body.length} of ${foretold}`);
  });

  it("is answered with the ETag of each entity that was written", () => {
    const written = { kind: "written", etag: `W/"datetime'1'"` } as const;
    const parts = [written, { kind: "deleted" } as const, written];
    const answer = printBatchResponse({ kind: "changeset", parts }, IDS);
    assert.deepEqual(readChangesetAnswer(new TextDecoder().decode(answer), 3), {
      kind: "done",
      etags: [written.etag, undefined, written.etag],
    });
  });

  it("is refused with the operation that was wrong", () => {
    const error = {
      code: "UpdateConditionNotSatisfied",
      message: { lang: "en-US", value: "7:The update condition was not satisfied.\nRequestId:1" },
    };
    const content = { type: "application/json", body: JSON.stringify({ "odata.error": error }) };
    const part = {
      kind: "failed",
      status: 412,
      code: "UpdateConditionNotSatisfied",
      content,
    } as const;
    const answer = printBatchResponse({ kind: "changeset", parts: [part] }, IDS);
    assert.deepEqual(readChangesetAnswer(new TextDecoder().decode(answer), 3), {
      ...{ kind: "refused", status: 412, code: "UpdateConditionNotSatisfied", index: 7 },
      message: "The update condition was not satisfied.",
    });
    const alone = new TextDecoder().decode(answer).replace("7:The", "The");
    const read = readChangesetAnswer(alone, 1);
    assert.equal(read.kind === "refused" && read.index, 0);
  });
});
