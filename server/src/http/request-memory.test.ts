import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RequestMemory } from "./request-memory.ts";

describe("RequestMemory", () => {
  it("can be held to the last byte, refuses more, and is free again after the work ends or fails", async () => {
    const room = new RequestMemory(100);
    let finish = () => {};
    const first = room.hold(60, () => new Promise<void>((done) => (finish = done)));
    await assert.rejects(
      room.hold(41, async () => {}),
      { code: "ServerBusy" },
    );
    assert.equal(await room.hold(40, async () => room.bytes), 100);
    await assert.rejects(
      room.hold(40, async () => {
        throw new Error("failed");
      }),
      { message: "failed" },
    );
    finish();
    await first;
    assert.equal(room.bytes, 0);
  });
});
