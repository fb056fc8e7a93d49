import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "@rowhouse/protocol/errors";
import type { GateFacts } from "../wire/gate.ts";
import { BlobLab } from "./test-blob-lab.ts";

describe("Each part of a batch of blobs", () => {
  it("passes the gate, which may refuse it", async () => {
    const entered: GateFacts[] = [];
    const lab = await BlobLab.open({
      gate: {
        enter(facts) {
          entered.push(facts);
          if (facts.operation === "DeleteBlob") throw new ServiceError("ServerBusy");
        },
      },
    });
    await lab.must("PUT", "/docs?restype=container");
    await lab.put("/docs/a");
    entered.length = 0;
    const answer = await lab.must("POST", "/?comp=batch", {
      headers: { "Content-Type": "multipart/mixed; boundary=b" },
      body: `--b\r\nContent-Type: application/http\r\n\r\n${lab.signed("DELETE", "/docs/a")}\r\n--b--\r\n`,
    });
    assert.match(answer.body.toString(), /HTTP\/1\.1 503 /);
    assert.deepEqual(entered, [
      { operation: "BlobBatch", resource: "" },
      { operation: "DeleteBlob", resource: "docs" },
    ]);
    await lab.must("GET", "/docs/a");
    await lab.close();
  });
});
