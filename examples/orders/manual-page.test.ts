import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { it } from "node:test";

const page = readFileSync(new URL("../../docs/manual/build-a-service.md", import.meta.url), "utf8");
const files = readdirSync(new URL(".", import.meta.url))
  .filter((name) => name.endsWith(".ts"))
  .map((name) => readFileSync(new URL(name, import.meta.url), "utf8"));

it("Every excerpt of the manual's page on building a service is in the example", () => {
  const excerpts = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, text = ""]) => text);
  assert.ok(excerpts.length > 4);
  for (const excerpt of excerpts)
    assert.ok(
      files.some((file) => file.includes(excerpt)),
      excerpt,
    );
});
