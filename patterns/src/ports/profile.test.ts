import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { profileOf } from "./profile.ts";

describe("a profile", () => {
  it("is refused if its name is unknown", () => {
    for (const name of ["Cosmos", "", "constructor"]) {
      assert.throws(() => Reflect.apply(profileOf, undefined, [name]), {
        name: "TypeError",
        message: `"${name}" is not a profile: use azure, cosmos, azurite, rowhouse.`,
      });
    }
  });
});
