import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { refusalOf } from "../auth/test-request.ts";
import { metadataHeaders, readMetadata, sameMetadata } from "./metadata.ts";

describe("Metadata", () => {
  it("preserves the case of names and trims values", () => {
    const metadata = read(["X-MS-Meta-Owner", " ops ", "Host", "h", "x-ms-meta-_z1", "a b"]);
    assert.deepEqual(metadata, [
      ["Owner", "ops"],
      ["_z1", "a b"],
    ]);
    assert.deepEqual(metadataHeaders(metadata), ["x-ms-meta-Owner", "ops", "x-ms-meta-_z1", "a b"]);
  });

  it("rejects values with characters other than printable ASCII and tabs, even at their ends", () => {
    for (const value of ["ü", "a\u00a0b", "\u00a0a", "a\u00a0", "a\u0001b"]) {
      assert.equal(refusal(["a", value]), "InvalidMetadata");
    }
  });

  it("is equal in any case and order of names, but not in another case of values", () => {
    const owner = ["Owner", "ops"] as const;
    const zone = ["zone", "eu"] as const;
    assert.ok(sameMetadata([owner, zone], [["ZONE", "eu"], owner]));
    assert.ok(sameMetadata([], []));
    assert.ok(!sameMetadata([owner], [["Owner", "Ops"]]));
    assert.ok(!sameMetadata([owner], [owner, zone]));
    assert.ok(!sameMetadata([owner], [zone]));
  });

  it("rejects names that are not identifiers, and duplicate names", () => {
    for (const name of ["1a", "a-b", "a.b", "é"])
      assert.equal(refusal([name, "x"]), "InvalidMetadata");
    assert.equal(refusal(["a", "x", "A", "y"]), "InvalidMetadata");
    assert.equal(refusal(["", "x"]), "EmptyMetadataKey");
    assert.equal(refusal(["a", "caf\u00e9"]), "InvalidMetadata");
  });

  it("may have 8 KiB of names and values in total, and no more", () => {
    assert.equal(read(["x-ms-meta-ab", "v".repeat(8190)]).length, 1);
    assert.equal(refusal(["ab", "v".repeat(8191)]), "MetadataTooLarge");
  });
});

function read(rawHeaders: string[]) {
  return readMetadata({ rawHeaders });
}

function refusal(pairs: string[]): string {
  const rawHeaders = pairs.map((text, i) => (i % 2 === 0 ? `x-ms-meta-${text}` : text));
  return refusalOf(() => read(rawHeaders)).code;
}
