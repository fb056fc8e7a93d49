import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { errorsPage } from "./errors-page.ts";

describe("The manual's page of errors", () => {
  it("lists every error code that the server can return (npm run errors-page writes it)", () => {
    const page = readFileSync(new URL("../docs/manual/errors.md", import.meta.url), "utf8");
    assert.equal(page, errorsPage());
  });
});
