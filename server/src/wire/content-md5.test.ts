import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { refusalOf } from "../auth/test-request.ts";
import { checkContentMd5 } from "./content-md5.ts";

const HELLO = "XUFAKrxLKna5cZ2REBfFkg==";

describe("Content-MD5", () => {
  it("is accepted if it is absent or right", () => {
    check(undefined);
    check(HELLO);
  });

  it("is rejected if it is not sixteen bytes in base64", () => {
    for (const announced of ["x", "aGVsbG8=", `${HELLO.slice(0, -1)}`]) {
      assert.equal(refusalOf(() => check(announced)).code, "InvalidMd5");
    }
  });

  it("is rejected with both checksums if it is wrong", () => {
    const wrong = "AAAAAAAAAAAAAAAAAAAAAA==";
    const { code, details } = refusalOf(() => check(wrong));
    assert.equal(code, "Md5Mismatch");
    assert.deepEqual(details, [
      ["UserSpecifiedMd5", wrong],
      ["ServerCalculatedMd5", HELLO],
    ]);
  });
});

function check(announced: string | undefined): void {
  checkContentMd5({ header: () => announced, body: Buffer.from("hello") });
}
