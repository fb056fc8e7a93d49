import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { describe, it } from "node:test";
import fc from "fast-check";
import { entity, f, isTableError, k } from "./index.ts";
import { siblingIndex } from "./sibling-index.ts";
import { type SasRange, sasIssuer } from "./table-sas.ts";

const KEY = Buffer.from("a key of an account").toString("base64");
const NOW = Date.UTC(2025, 0, 1, 12);
const clock = { time: NOW, now: () => clock.time };
const issuer = sasIssuer({ account: "acme", key: KEY, clock });

const Note = entity("Note", {
  version: 1,
  fields: { user: f.string(), folder: f.string(), id: f.int32() },
  key: { partition: [k.str("user")], row: [k.lit("note"), k.str("folder"), k.uint("id", 4)] },
});
const Employee = entity("Employee", {
  version: 1,
  fields: { dept: f.string(), id: f.int32(), email: f.string() },
  key: { partition: [k.str("dept")], row: [k.lit("empid"), k.uint("id", 6)] },
  indexes: { email: siblingIndex({ row: [k.lit("email"), k.str("email")], unique: true }) },
});
const ann = { partition: { user: "ann" } };
const isRefused = (error: unknown) => isTableError(error, "validation-failed");

const isIn = (
  { partitionKey, firstRowKey = "", lastRowKey = "\u{ffff}" }: SasRange,
  key: { partitionKey: string; rowKey: string },
) => key.partitionKey === partitionKey && key.rowKey >= firstRowKey && key.rowKey <= lastRowKey;

describe("a token for a range of rows", () => {
  it("is refused if plain JavaScript misspells a segment", async () => {
    const grant = { ...ann, rows: { foldr: "inbox" }, permissions: ["read"] };
    await assert.rejects(async () => issuer.sasFor(Note, grant as never), isRefused);
  });

  it("contains the signed values and the signature of the account's key", async () => {
    const { token, expiresAt, range } = await issuer.sasFor(Note, {
      ...ann,
      rows: { folder: "inbox" },
      permissions: ["delete", "read"],
    });
    assert.deepEqual(expiresAt, new Date("2025-01-01T13:00:00Z"));
    assert.deepEqual(range, {
      partitionKey: "ann",
      firstRowKey: "note_inbox_",
      lastRowKey: "note_inbox_~1",
    });
    const { sig, ...rest } = Object.fromEntries(new URLSearchParams(token));
    assert.deepEqual(rest, {
      sv: "2019-02-02",
      tn: "Note",
      sp: "rd",
      st: "2025-01-01T11:55:00Z",
      se: "2025-01-01T13:00:00Z",
      spr: "https",
      spk: "ann",
      srk: "note_inbox_",
      epk: "ann",
      erk: "note_inbox_~1",
    });
    const signed = [
      "rd",
      "2025-01-01T11:55:00Z",
      "2025-01-01T13:00:00Z",
      "/table/acme/note",
      "",
      "",
      "https",
      "2019-02-02",
      "ann",
      "note_inbox_",
      "ann",
      "note_inbox_~1",
    ].join("\n");
    const expected = createHmac("sha256", Buffer.from(KEY, "base64")).update(signed);
    assert.equal(sig, expected.digest("base64"));
  });

  it("admits exactly the rows with its prefix, whatever the values", async () => {
    // Characters that keys escape, characters that begin escapes, and their neighbours.
    const char = fc.constantFrom(...'ab_!/\\#?%$.>[^~"}é', "\u{1f600}", " ");
    const value = fc.string({ unit: char, maxLength: 4 }).filter((text) => text !== "");
    await fc.assert(
      fc.asyncProperty(value, value, value, value, async (user, folder, other, elsewhere) => {
        const { range } = await issuer.sasFor(Note, { partition: { user }, rows: { folder } });
        const prefixed = await issuer.sasForIndex(Employee, "email", {
          partition: { dept: user },
          rows: { email: { startsWith: folder } },
        });
        for (const name of [folder, folder + other, other, `${folder}/`, `${folder}_`, elsewhere]) {
          for (const id of [0, 9999]) {
            const key = keyOf(Note, { user, folder: name, id });
            assert.equal(isIn(range, key), name === folder, `${folder} ${name}`);
            assert.equal(isIn(range, keyOf(Note, { user: `${user}a`, folder: name, id })), false);
          }
          const rowKey = `email_${k.str("email").encode(name, { escapeUnderscore: false })}`;
          const { partitionKey } = keyOf(Note, { user, folder, id: 1 });
          const isInside = isIn(prefixed.range, { partitionKey, rowKey });
          assert.equal(isInside, name.startsWith(folder), `${folder} ${name}`);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it("excludes other rows of the partition", async () => {
    const { range } = await issuer.sasFor(Employee, { partition: { dept: "Sales" } });
    const inSales = (rowKey: string) => isIn(range, { partitionKey: "Sales", rowKey });
    assert.ok(inSales("empid_000223"));
    for (const rowKey of ["email_jonesj@contoso.com", "outbox_01J", "empid", "empie_1"]) {
      assert.ok(!inSales(rowKey), rowKey);
    }
    const one = await issuer.sasFor(Employee, { partition: { dept: "Sales" }, rows: { id: 223 } });
    assert.deepEqual(
      [one.range.firstRowKey, one.range.lastRowKey],
      ["empid_000223", "empid_000223"],
    );
  });

  it("is reused for most of its life", async () => {
    const grant = { ...ann, ttlMs: 100_000 };
    const first = await issuer.sasFor(Note, grant);
    clock.time = NOW + 79_999;
    assert.equal(await issuer.sasFor(Note, { ...grant }), first);
    clock.time = NOW + 80_000;
    const second = await issuer.sasFor(Note, grant);
    assert.deepEqual(second.expiresAt, new Date(NOW + 180_000));
    assert.notEqual(await issuer.sasFor(Note, { ...grant, partition: { user: "bob" } }), second);
    clock.time = NOW;
  });

  it("leaves permissions and expiry to a policy", async () => {
    const { token, expiresAt } = await issuer.sasFor(Note, { ...ann, policy: "readers" });
    const { si, sp, se } = Object.fromEntries(new URLSearchParams(token));
    assert.deepEqual([si, sp, se, expiresAt], ["readers", undefined, undefined, undefined]);
  });

  it("is refused if it would bypass an index or its range is not a prefix", () => {
    const sales = { partition: { dept: "Sales" } };
    for (const grant of [
      { ...ann, ttlMs: 999 },
      { ...ann, permissions: ["write" as "update"] },
      { ...ann, ttlMs: 7 * 24 * 3_600_000 + 1 },
      { ...ann, ttlMs: Number.NaN },
      { ...ann, permissions: [] },
      { ...ann, policy: "readers", ttlMs: 1000 },
      { ...ann, rows: { folder: { startsWith: "a" }, id: 1 } },
    ]) {
      // The compiler catches some of these.
      assert.throws(
        () => issuer.sasFor(Note, grant as typeof ann),
        isRefused,
        JSON.stringify(grant),
      );
    }
    assert.throws(() => issuer.sasFor(Note, { partition: {} as { user: string } }), isRefused);
    assert.throws(
      () => issuer.sasFor(Employee, { ...sales, permissions: ["read", "update"] }),
      isRefused,
    );
    assert.throws(
      () => issuer.sasFor(Employee, { ...sales, rows: { id: { gte: 1, lt: 3 } } }),
      isRefused,
    );
    for (const ttlMs of [1000, 7 * 24 * 3_600_000])
      assert.ok(issuer.sasFor(Note, { ...ann, ttlMs }));
  });
});

function keyOf({ rows }: typeof Note, values: { user: string; folder: string; id: number }) {
  return { partitionKey: rows.partition.encode(values), rowKey: rows.row.encode(values) };
}
