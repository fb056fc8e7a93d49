import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { describe, it } from "node:test";
import { DealtConnections } from "./dealt-connections.ts";

describe("The connections sent to a worker that dies", () => {
  it("are closed, except those that it accepted, and those that it refused and another may accept", () => {
    const worker = Object.assign(new EventEmitter(), { send: (..._dealt: unknown[]) => true });
    const dealt = new DealtConnections(worker);
    const closed: string[] = [];
    for (const [seq, name] of ["taken", "refused", "unanswered", "of another port"].entries()) {
      const connection = { close: () => closed.push(name) };
      assert.equal(
        worker.send({ cmd: "NODE_CLUSTER", act: "newconn", key: "k", seq }, connection),
        true,
      );
    }
    worker.send({ cmd: "NODE_CLUSTER", act: "disconnect", seq: 4 });
    worker.emit("internalMessage", { cmd: "NODE_CLUSTER", ack: 0, accepted: true });
    worker.emit("internalMessage", { cmd: "NODE_CLUSTER", ack: 1, accepted: false });
    worker.emit("internalMessage", { cmd: "NODE_CLUSTER", act: "close", key: "k", seq: 2 });
    dealt.close();
    assert.deepEqual(closed, ["unanswered", "of another port"]);
  });
});
