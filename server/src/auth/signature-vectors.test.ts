import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseSas } from "@rowhouse/protocol/sas";
import type { RequestHead } from "../wire/operation.ts";
import {
  authenticate,
  contextAt,
  refusalOf,
  sign,
  sketchRequest,
  type TestContext,
} from "./test-request.ts";
import {
  BLOB_VECTORS,
  QUEUE_VECTORS,
  SIGNATURE_VECTORS,
  type SignatureVector,
  TABLE_VECTORS,
} from "./test-signature-vectors.ts";

const SHARED_KEY_VECTORS = SIGNATURE_VECTORS.filter(({ scheme }) => scheme !== "SAS");

describe("every published signature", () => {
  it("is in the vectors", () => {
    assert.equal(TABLE_VECTORS.length, 16);
    assert.equal(QUEUE_VECTORS.length, 10);
    assert.equal(BLOB_VECTORS.length, 14);
  });

  for (const vector of SIGNATURE_VECTORS) {
    it(`is the HMAC of its string to sign: ${vector.name}`, () => {
      assert.equal(sign(vector.stringToSign), vector.signature);
    });

    it(`is accepted: ${vector.name}`, () => {
      const identity = authenticate(headOf(vector), vector.dialect, contextOf(vector));
      assert.ok(!(identity instanceof Promise));
      const kind = { SAS: /^(account|service)-sas$/, SharedKey: /^shared-key$/ };
      assert.match(identity.kind, kind[vector.scheme === "SAS" ? "SAS" : "SharedKey"]);
    });

    it(`is refused with any of its characters changed: ${vector.name}`, () => {
      for (let index = 0; index < vector.signature.length; index++) {
        for (const replacement of ["A", "z", "/", "-"]) {
          if (replacement === vector.signature[index]) continue;
          const { signature } = vector;
          const changed = signature.slice(0, index) + replacement + signature.slice(index + 1);
          assertFails(vector, changed);
        }
      }
    });

    it(`is refused when cut short or extended: ${vector.name}`, () => {
      const { signature } = vector;
      for (const changed of [signature.slice(0, -1), `${signature}=`, `${signature}A`, "A"]) {
        assertFails(vector, changed);
      }
    });

    it(`is refused under another key: ${vector.name}`, () => {
      const other = { name: "devstoreaccount1", keys: [Buffer.alloc(64)] };
      assertRefused(headOf(vector, { account: other }), vector);
    });
  }
});

describe("a string to sign", () => {
  for (const vector of SHARED_KEY_VECTORS) {
    it(`is among the strings that the server computes for the request: ${vector.name}`, () => {
      assert.ok(readings(vector).includes(vector.stringToSign));
    });
  }

  for (const vector of SIGNATURE_VECTORS.filter(
    ({ scheme, line }) => scheme === "SAS" && !line.includes("srt="),
  )) {
    it(`is computed from the SAS: ${vector.name}`, () => {
      const head = headOf(vector);
      const { stringToSign } = vector.dialect.readServiceSas(head, parseSas(head.query.pairs));
      assert.equal(stringToSign, vector.stringToSign);
    });
  }
});

describe("a request signed over another string than its scheme prescribes", () => {
  const cases: [string, vector: string, wrong: (right: string) => string][] = [
    [
      "with the path decoded",
      "S4",
      (right) => right.replace(/\/devstoreaccount1.*/, decodeURIComponent),
    ],
    ["with the account only once on a path-style address", "S1", once],
    ["with restype in the string", "S6", (right) => right.replace("?", "?restype=service&")],
    ["without the final line feed of an account SAS", "A1", (right) => right.slice(0, -1)],
    ["with a Content-Length of 0", "Q-V1", (right) => right.replace("PUT\n\n\n", "PUT\n\n\n0")],
    ["with the account only once in a queue's path", "Q-V1", once],
  ];
  for (const [title, name, wrong] of cases) {
    it(`is refused ${title}`, () => {
      const vector = SIGNATURE_VECTORS.find((one) => one.name.split(",")[0] === name)!;
      const text = wrong(vector.stringToSign);
      assert.notEqual(text, vector.stringToSign);
      assertFails(vector, sign(text));
    });
  }

  for (const [from, to] of [
    ["tn=People", "tn=Peoples"],
    ["spk=a", "spk=A"],
  ] as const) {
    it(`is refused with ${to} in place of ${from}`, () => {
      const vector = TABLE_VECTORS.find(({ name }) => name.startsWith("T1"))!;
      const line = vector.line.replace(from, to);
      assertRefused(headOf({ ...vector, line }), vector);
      const location = { resource: "entities", name: "Peoples" };
      assertRefused(headOf({ ...vector, line }, { location }), vector);
    });
  }
});

describe("a signed date", () => {
  for (const vector of SHARED_KEY_VECTORS) {
    it(`is accepted up to 15 minutes before and after: ${vector.name}`, () => {
      const signedAt = Date.parse(vector.now);
      const at = (offsetMs: number) => contextAt(new Date(signedAt + offsetMs).toISOString());
      const limitMs = 15 * 60 * 1000;
      for (const offset of [-limitMs, limitMs]) {
        assert.ok(authenticate(headOf(vector), vector.dialect, at(offset)));
      }
      for (const offset of [-limitMs - 1, limitMs + 1]) {
        assertRefused(headOf(vector), vector, at(offset));
        const unchecked = { ...at(offset), checkDate: false };
        assert.ok(authenticate(headOf(vector), vector.dialect, unchecked));
      }
    });
  }
});

function headOf(vector: SignatureVector, changes: Partial<RequestHead> = {}): RequestHead {
  return sketchRequest(vector.line, { ...vector.request, ...changes });
}

function contextOf({ now, policy }: SignatureVector): TestContext {
  return contextAt(now, { storedPolicy: ({ id }) => (id === policy?.id ? policy : undefined) });
}

function readings({ dialect, scheme, ...vector }: SignatureVector): string[] {
  const head = sketchRequest(vector.line, vector.request);
  return scheme === "SharedKey"
    ? [...dialect.sharedKeyStrings(head, head.rawPath)]
    : [...dialect.sharedKeyLiteStrings(head, head.rawPath)];
}

function assertFails(vector: SignatureVector, signature: string): void {
  const line = vector.line.replace(/&sig=.*/, `&sig=${encodeURIComponent(signature)}`);
  const headers = { ...vector.request.headers };
  if (vector.scheme !== "SAS") {
    headers.Authorization = `${vector.scheme} devstoreaccount1:${signature}`;
  }
  assertRefused(sketchRequest(line, { ...vector.request, headers }), vector);
}

function assertRefused(
  head: RequestHead,
  vector: SignatureVector,
  context = contextOf(vector),
): void {
  const { code, status, stage } = refusalOf(() => authenticate(head, vector.dialect, context));
  assert.deepEqual([code, status, stage], ["AuthenticationFailed", 403, "authentication"]);
}

function once(stringToSign: string): string {
  return stringToSign.replace("/devstoreaccount1/devstoreaccount1", "/devstoreaccount1");
}
