import assert from "node:assert/strict";
import { it } from "node:test";
import { madeOnce } from "./made-once.ts";

it("A value is made once, and again only after it could not be made", async () => {
  let tries = 0;
  const get = madeOnce(async (name: string) => {
    if (++tries === 1) throw new Error("not there yet");
    return `${name} ${tries}`;
  });
  await assert.rejects(get("a"), /not there yet/);
  assert.deepEqual(await Promise.all([get("b"), get("c")]), ["b 2", "b 2"]);
});
