import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import { sketchRequest } from "../auth/test-request.ts";
import {
  checkCreateConditions,
  checkReadConditions,
  checkSourceConditions,
  checkWriteConditions,
  readConditions,
  sourceConditions,
  writeConditions,
} from "./conditions.ts";
import { etagOf, lastModifiedOf } from "./validators.ts";

/** The blob's last change, half a second into a second. */
const MODIFIED = Date.parse("2026-07-31T18:00:00.500Z") * 1000;
const ETAG = `"${etagOf(MODIFIED)}"`;
const BEFORE = "Fri, 31 Jul 2026 17:59:59 GMT";
const THEN = "Fri, 31 Jul 2026 18:00:00 GMT";
const OTHER = '"0x8DECF0000000000"';

/** An array is sent as several headers. */
type Headers = Readonly<Record<string, string | readonly string[]>>;

describe("The conditions of a read", () => {
  const READS: readonly [Headers, string][] = [
    [{}, "ok"],
    [{ "if-match": ETAG }, "ok"],
    [{ "if-match": ETAG.slice(1, -1) }, "ok"],
    [{ "if-match": "*" }, "ok"],
    [{ "if-match": `${OTHER}, ${ETAG}` }, "ok"],
    [{ "if-match": [ETAG, OTHER] }, "ok"],
    [{ "if-match": OTHER }, "412"],
    [{ "if-match": OTHER, "if-none-match": ETAG }, "412"],
    [{ "if-unmodified-since": THEN }, "ok"],
    [{ "if-unmodified-since": BEFORE }, "412"],
    [{ "if-match": ETAG, "if-unmodified-since": BEFORE }, "412"],
    [{ "if-none-match": OTHER }, "ok"],
    [{ "if-none-match": ETAG }, "304"],
    [{ "if-none-match": `${OTHER},${ETAG}` }, "304"],
    [{ "if-none-match": [ETAG, OTHER] }, "304"],
    [{ "if-none-match": `W/${ETAG}` }, "304"],
    [{ "if-none-match": `W/${OTHER}, W/${ETAG}` }, "304"],
    [{ "if-none-match": `W/${OTHER}` }, "ok"],
    [{ "if-match": `W/${ETAG}` }, "412"],
    [{ "if-modified-since": BEFORE }, "ok"],
    [{ "if-modified-since": THEN }, "304"],
    [{ "if-none-match": ETAG, "if-modified-since": BEFORE }, "ok"],
    [{ "if-none-match": OTHER, "if-modified-since": THEN }, "ok"],
    [{ "if-none-match": ETAG, "if-modified-since": THEN }, "304"],
    [{ "if-unmodified-since": "null" }, "ok"],
    [{ "if-modified-since": "yesterday" }, "ok"],
  ];
  for (const [headers, expected] of READS) {
    it(`${print(headers)}: ${expected}`, () => {
      const outcome = outcomeOf(() =>
        checkReadConditions(readConditions(request(headers)), MODIFIED),
      );
      assert.equal(outcome, expected === "ok" ? "ok" : `${expected} ConditionNotMet`);
    });
  }

  it("that fail with 304 return both validators", () => {
    const conditions = readConditions(request({ "if-none-match": ETAG }));
    assert.throws(
      () => checkReadConditions(conditions, MODIFIED),
      (error: ServiceError) => {
        assert.deepEqual(error.headers, [
          ["ETag", ETAG],
          ["Last-Modified", THEN],
        ]);
        return true;
      },
    );
    assert.equal(lastModifiedOf(MODIFIED), THEN);
  });

  it("cannot be If-None-Match: *", () => {
    assert.equal(
      outcomeOf(() => readConditions(request({ "if-none-match": "*" }))),
      "400 UnsatisfiableCondition",
    );
  });
});

describe("The conditions of a write", () => {
  /** On an existing blob, and where there is none. */
  const WRITES: readonly [Headers, string, string][] = [
    [{}, "ok", "ok"],
    [{ "if-match": ETAG }, "ok", "412"],
    [{ "if-match": "*" }, "ok", "412"],
    [{ "if-match": OTHER }, "412", "412"],
    [{ "if-none-match": OTHER }, "ok", "ok"],
    [{ "if-none-match": ETAG }, "412", "ok"],
    [{ "if-none-match": `W/${ETAG}` }, "412", "ok"],
    [{ "if-none-match": "*" }, "409", "ok"],
    [{ "if-modified-since": BEFORE }, "ok", "ok"],
    [{ "if-modified-since": THEN }, "412", "ok"],
    [{ "if-unmodified-since": THEN }, "ok", "ok"],
    [{ "if-unmodified-since": BEFORE }, "412", "ok"],
    // Of these pairs only the ETag counts.
    [{ "if-none-match": OTHER, "if-modified-since": THEN }, "ok", "ok"],
    [{ "if-match": ETAG, "if-unmodified-since": BEFORE }, "ok", "412"],
  ];
  for (const [headers, present, absent] of WRITES) {
    it(`${print(headers)}: ${present}, and ${absent} if there is no blob`, () => {
      const conditions = writeConditions(request(headers));
      for (const [modified, expected] of [
        [MODIFIED, present],
        [undefined, absent],
      ] as const) {
        const code = expected === "409" ? "BlobAlreadyExists" : "ConditionNotMet";
        const outcome = outcomeOf(() => checkCreateConditions(conditions, modified));
        assert.equal(outcome, expected === "ok" ? "ok" : `${expected} ${code}`);
        const other = outcomeOf(() => checkWriteConditions(conditions, modified));
        assert.equal(other, expected === "ok" ? "ok" : "412 ConditionNotMet");
      }
    });
  }

  for (const headers of [
    { "if-match": ETAG, "if-none-match": OTHER },
    { "if-match": ETAG, "if-modified-since": BEFORE },
    { "if-none-match": OTHER, "if-unmodified-since": THEN },
    { "if-modified-since": BEFORE, "if-unmodified-since": THEN },
    { "if-match": `${ETAG},${OTHER}` },
    { "if-none-match": `${ETAG},${OTHER}` },
    { "if-match": [OTHER, "*"] },
    { "if-none-match": ["*", OTHER] },
    { "if-modified-since": [THEN, BEFORE] },
    { "if-unmodified-since": [BEFORE, THEN] },
  ]) {
    it(`cannot be ${print(headers)}`, () => {
      assert.equal(
        outcomeOf(() => writeConditions(request(headers))),
        "400 MultipleConditionHeadersNotSupported",
      );
    });
  }

  it("cannot be on tags", () => {
    assert.equal(
      outcomeOf(() => writeConditions(request({ "x-ms-if-tags": "a = 'b'" }))),
      "501 NotImplemented",
    );
  });
});

describe("The conditions of a copy's source", () => {
  it("have their own headers and error code", () => {
    const check = (headers: Headers) =>
      outcomeOf(() => checkSourceConditions(sourceConditions(request(headers)), MODIFIED));
    assert.equal(check({ "if-match": OTHER }), "ok");
    assert.equal(check({ "x-ms-source-if-match": ETAG }), "ok");
    assert.equal(check({ "x-ms-source-if-match": OTHER }), "412 SourceConditionNotMet");
    assert.equal(check({ "x-ms-source-if-none-match": "*" }), "412 SourceConditionNotMet");
    assert.equal(check({ "x-ms-source-if-modified-since": THEN }), "412 SourceConditionNotMet");
    assert.equal(check({ "x-ms-source-if-unmodified-since": BEFORE }), "412 SourceConditionNotMet");
  });
});

function request(headers: Headers) {
  return sketchRequest("PUT /devstoreaccount1/docs/a", { headers });
}

function print(headers: Headers): string {
  return Object.entries(headers)
    .flatMap(([name, values]) => [values].flat().map((value) => `${name}: ${value}`))
    .join(", ");
}

function outcomeOf(action: () => unknown): string {
  try {
    action();
    return "ok";
  } catch (error) {
    if (error instanceof ServiceError) return `${error.status} ${error.code}`;
    throw error;
  }
}
