import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { WireResponse } from "../wire/operation.ts";
import { type Health, healthPages } from "./health.ts";
import type { Page } from "./pages.ts";
import { HeaderList, WholeBody } from "./raw-request.ts";

describe("The readiness page", () => {
  it("checks once for concurrent requests, and again for later ones", async () => {
    let looks = 0;
    let found = (_health: Health) => {};
    const pages = healthPages(() => {
      looks++;
      return new Promise((resolve) => {
        found = resolve;
      });
    });
    for (const ready of [true, false]) {
      const asked = Array.from({ length: 5 }, () => ask(pages));
      found({ ready, detail: { engine: "some" } });
      for (const { status, body } of await Promise.all(asked)) {
        assert.equal(status, ready ? 200 : 503);
        assert.match(String(body), /"engine":"some"/);
      }
    }
    assert.equal(looks, 2);
  });

  it("reports not ready if the check fails, and checks again for the next request", async () => {
    const looks = [() => Promise.reject(new Error("away")), () => ({ ready: true, detail: {} })];
    const pages = healthPages(() => looks.shift()!());
    assert.equal((await ask(pages)).status, 503);
    assert.equal((await ask(pages)).status, 200);
  });
});

async function ask(pages: readonly Page[]): Promise<WireResponse> {
  const readyz = pages.find(({ path }) => path === "/readyz")?.methods.GET;
  assert.ok(readyz);
  return readyz({
    raw: {
      verb: "GET",
      target: "/readyz",
      headers: new HeaderList([]),
      secure: false,
      remoteAddress: "127.0.0.1",
      body: new WholeBody(new Uint8Array(0)),
    },
    rest: "",
    query: new URLSearchParams(),
  });
}
