import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";
import { copyAs, LANGUAGES } from "./copy-as.ts";

const QUERY = {
  origin: "http://127.0.0.1:10002",
  account: "devstoreaccount1",
  table: "Films",
  filter: "title eq 'O''Brien $HOME \"x\" \\'",
  select: ["title", "year"],
};

describe("A query copied for another program", () => {
  it("names the table and the filter in each language, and no credential", () => {
    for (const language of LANGUAGES) {
      const text = copyAs(language, QUERY);
      assert.match(text, /Films/);
      assert.match(text, /title/);
      assert.doesNotMatch(text, /sig=|AccountKey/);
      const bare = copyAs(language, { ...QUERY, filter: "", select: [] });
      assert.doesNotMatch(bare, /filter|select/i);
    }
  });

  it("passes the filter through a shell as it is", () => {
    const text = copyAs("curl", QUERY)
      .replace(/^#.*\n/, "")
      .replace("curl", "printf '%s\\n'");
    const words = execFileSync("sh", ["-c", text], { encoding: "utf8" }).split("\n");
    assert.ok(words.includes(`$filter=${QUERY.filter}`), words.join("\n"));
  });
});
